"""The text of a job's file as plain data, with the line of every word: YAML or TOML, and nothing that could do harm."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perseid.errors import MissingExtraError
from perseid.settings import SettingsError

try:
    import yaml
except ImportError:  # pragma: no cover - said where a job is read
    raise MissingExtraError("Files of jobs need PyYAML.", hint="pip install 'perseid[jobs]'") from None

MAX_BYTES = 1 << 18
"""How large a job's file may be."""
MAX_PARTS = 20_000
"""How many words and values it may have once aliases are followed."""
MAX_DEPTH = 40
At = tuple[str | int, ...]
_HARMLESS = ("null", "bool", "int", "float", "str", "timestamp", "seq", "map")
_AS_BOOLEAN = "YAML reads on, off, yes and no as true and false; put it into quotes"


@dataclass
class Written:
    """What a file says, and on which line it says it."""

    data: Any
    lines: dict[At, int] = field(default_factory=dict)


def read_text(path: Path) -> str:
    """The text of the file, if it is one and of a reasonable size."""
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    if len(body) > MAX_BYTES:
        raise SettingsError(f"{path} has more than {MAX_BYTES} bytes, and a job's file has fewer.")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.") from None


def read_toml(text: str, path: Path) -> Written:
    try:
        return Written(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (line \d+), column \d+\)|\(at end of document\)", str(error))
        where = f", {place[1]}" if place and place[1] else ""
        said = str(error).partition(" (at ")[0]
        # Some of its messages show what stands there.
        said = re.sub(r"[:\s]*(b?'.*'|\".*\"|\(.*\)).*$", "", said)
        raise SettingsError(f"{path}{where}: this is not TOML: {said}.") from None
    except RecursionError:
        raise SettingsError(f"{path}: it is nested more than {MAX_DEPTH} deep.") from None


def read_yaml(text: str, path: Path) -> Written:
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise SettingsError(f"{path} is empty.", hint="Begin with: job: NAME. perseid new FOLDER makes an example.")
        reader = _Reader(path, loader)
        written = Written(reader.read(node, (), 0), reader.lines)
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}{_line(error)}: this is not YAML: {_problem(error)}.") from None
    except RecursionError:
        raise SettingsError(f"{path}: it is nested more than {MAX_DEPTH} deep.") from None
    return written


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return "" if mark is None else f", line {mark.line + 1}"


def _problem(error: yaml.YAMLError) -> str:
    """What the reader says, without what stands in the file."""
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    if "'\\t'" in said:
        return "a tab stands where spaces are meant; indent with spaces"
    return re.sub(r"(alias|anchor|tag) .*", r"\1 that is not known", said)


class _Reader:
    """Nodes as plain data. Each is counted every time it is met, so that aliases of aliases end."""

    def __init__(self, path: Path, loader: Any) -> None:
        self.path, self.loader = path, loader
        self.lines: dict[At, int] = {}
        self.parts = 0

    def wrong(self, node: yaml.Node, said: str, hint: str | None = None) -> SettingsError:
        return SettingsError(f"{self.path}, line {node.start_mark.line + 1}: {said}", hint=hint)

    def read(self, node: yaml.Node, at: At, depth: int) -> Any:
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise self.wrong(node, f"it has more than {MAX_PARTS} words and values.", "Are there aliases of aliases?")
        if depth > MAX_DEPTH:
            raise self.wrong(node, f"it is nested more than {MAX_DEPTH} deep.", "Does an alias stand in itself?")
        self.lines.setdefault(at, node.start_mark.line + 1)
        self._harmless(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(one, (*at, place), depth + 1) for place, one in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at, depth)
        try:
            return self.loader.construct_object(node)
        except (ValueError, OverflowError):
            raise self.wrong(node, "this looks like a date or a number and is none; put it into quotes.") from None

    def _harmless(self, node: yaml.Node) -> None:
        word = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if word == "merge":
            raise self.wrong(node, "<< is not read here; write the words out, or use an alias for a whole value.")
        if word not in _HARMLESS:
            raise self.wrong(node, "a tag (!…) stands here, and a job's file has none; leave it out.")

    def _mapping(self, node: yaml.MappingNode, at: At, depth: int) -> Mapping[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(key, "a word is meant before the colon.")
            self._harmless(key)
            word = self.loader.construct_object(key)
            if isinstance(word, bool):
                raise self.wrong(key, f"a word is meant before the colon. {_AS_BOOLEAN}.")
            if word in found:
                raise self.wrong(key, f"the word {word!r} stands here a second time.", "Keep one of them.")
            self.lines[(*at, word)] = key.start_mark.line + 1
            found[word] = self.read(value, (*at, word), depth + 1)
        return found
