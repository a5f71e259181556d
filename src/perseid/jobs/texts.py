"""Parse the YAML or TOML text of a job file to plain data with line numbers, within limits on size and nesting."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perseid.errors import MissingExtraError, SettingsError
from perseid.jobs.yaml_errors import yaml_error
from perseid.semantics.values import has_lone_surrogate

try:
    import yaml
except ImportError:  # pragma: no cover - reported when a job is read
    raise MissingExtraError("Job files need PyYAML.", hint="pip install 'perseid[jobs]'") from None

MAX_BYTES = 1 << 18
"""Bytes of a job file."""
MAX_PARTS = 20_000
"""Values of a job file after aliases are resolved."""
MAX_NODES = 10_000
"""Keys and values that a YAML file has in its text; the time to parse it grows with them."""
MAX_DEPTH = 40
"""Levels of lists, mappings and parts of dotted keys."""
MAX_NUMBER_CHARS = 100
"""Characters of a number or a date; the time to convert it grows with their square."""
At = tuple[str | int, ...]
_HARMLESS = ("null", "bool", "int", "float", "str", "timestamp", "seq", "map")
_AS_BOOLEAN = "YAML reads on, off, yes and no as true and false; put it in quotes"


@dataclass
class ParsedFile:
    """Data of a file, and the line of each key."""

    data: Any
    lines: dict[At, int] = field(default_factory=dict)


def read_text(path: Path) -> str:
    """Read a file; raises if it is too large or is not UTF-8 text."""
    try:
        with path.open("rb") as file:
            body = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    if len(body) > MAX_BYTES:
        raise SettingsError(f"{path} is larger than the limit of {MAX_BYTES} bytes.")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.") from None


_TOML_TOKEN = re.compile(
    r'''
      (?P<string> """ (?: [^"\\] | \\. | "(?!"") )*+ "{0,5}
        | \'\'\' (?: [^'] | '(?!\'\') )*+ '{0,5}
        | " (?: [^"\\\n] | \\[^\n] )*+ "?
        | ' [^'\n]*+ '? )
    | (?P<comment> \#[^\n]*+ )
    | (?P<word> [A-Za-z0-9_+-]++ )
    | (?P<space> [ \t]++ )
    | (?P<dot> \. )
    | (?P<opened> [\[{] )
    | (?P<closed> [\]}] )
    | (?P<other> [^"'\#A-Za-z0-9_+\-\ \t.\[\]{}]++ )
    ''',
    re.VERBOSE | re.DOTALL,
)


def read_toml(text: str, path: Path) -> ParsedFile:
    text = text.replace("\r\n", "\n")
    _check_toml_limits(text, path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (line \d+), column \d+\)|\(at end of document\)", str(error))
        where = f", {place[1]}" if place and place[1] else ""
        message = str(error).partition(" (at ")[0]
        # Some of its messages show the text at that place.
        message = re.sub(r"[:\s]*(b?'.*'|\".*\"|\(.*\)).*$", "", message)
        raise SettingsError(f"{path}{where}: invalid TOML: {message}.") from None
    except (ValueError, OverflowError):
        raise SettingsError(f"{path}: invalid number or date.", hint="Put it in quotes.") from None
    except RecursionError:
        raise _too_deep(path) from None
    _check_size(data, path)
    return ParsedFile(data)


def _too_deep(path: Path, line: int | None = None) -> SettingsError:
    where = "" if line is None else f", line {line}"
    return SettingsError(f"{path}{where}: nested more than {MAX_DEPTH} levels deep.")


def _check_toml_limits(text: str, path: Path) -> None:
    """Raises on brackets, dotted keys and numbers beyond the limits, in one pass over the tokens.

    The parser recurses into brackets, and its time grows with the square of the parts of a key and of the digits of a number.
    """
    brackets = dots = 0
    for token in _TOML_TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "opened":
            brackets, dots = brackets + 1, 0
        elif kind == "closed":
            brackets, dots = max(brackets - 1, 0), 0
        elif kind == "dot":
            dots += 1
        elif kind in ("comment", "other"):
            dots = 0
        elif kind == "word" and token[0][0] in "0123456789+-" and len(token[0]) > MAX_NUMBER_CHARS:
            line = text.count("\n", 0, token.start()) + 1
            raise SettingsError(
                f"{path}, line {line}: a number has more than {MAX_NUMBER_CHARS} characters.",
                hint="Put it in quotes if it is a string or a key.",
            )
        if brackets > MAX_DEPTH or dots >= MAX_DEPTH:
            raise _too_deep(path, text.count("\n", 0, token.start()) + 1)


def _check_size(data: object, path: Path) -> None:
    """Raises on parsed data beyond the limits: a dotted key inside a table adds to the depth of the table."""
    level, parts, depth = [data], 0, 0
    while level:
        parts += len(level)
        if parts > MAX_PARTS:
            raise SettingsError(f"{path}: more than {MAX_PARTS} keys and values.")
        if depth > MAX_DEPTH:
            raise _too_deep(path)
        level = [inner for one in level for inner in _values_in(one)]
        depth += 1


def _values_in(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


class _BoundedLoader(yaml.SafeLoader):
    """Composes nodes up to the limits, so that a file beyond them is not read to its end."""

    def __init__(self, text: str, path: Path) -> None:
        super().__init__(text)
        self._path, self._nodes, self._depth = path, 0, 0

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        # The scanner reads ahead of the nodes, and compares every open bracket at each token.
        if self.flow_level > MAX_DEPTH:
            raise _too_deep(self._path, self.line + 1)
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._nodes += 1
        self._depth += 1
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
        if self._nodes > MAX_NODES:
            raise SettingsError(
                f"{self._path}, line {line}: more than {MAX_NODES} keys and values.",
                hint="Move rules and tables to separate files.",
            )
        if self._depth > MAX_DEPTH + 1:
            raise _too_deep(self._path, line)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def read_yaml(text: str, path: Path) -> ParsedFile:
    try:
        loader = _BoundedLoader(text, path)
        node = loader.get_single_node()
        if node is None:
            raise SettingsError(
                f"{path} is empty.", hint="Begin with job: NAME, or run perseid new FOLDER for an example."
            )
        reader = _NodeReader(path, loader)
        written = ParsedFile(reader.read(node, (), 0), reader.lines)
    except yaml.YAMLError as error:
        raise yaml_error(error, text, path) from None
    except RecursionError:
        raise _too_deep(path) from None
    return written


class _NodeReader:
    """Converts nodes to plain data; counts a node at each visit, so that aliases of aliases end at the limit."""

    def __init__(self, path: Path, loader: _BoundedLoader) -> None:
        self.path, self.loader = path, loader
        self.lines: dict[At, int] = {}
        self.parts = 0

    def wrong(self, node: yaml.Node, message: str, hint: str | None = None) -> SettingsError:
        return SettingsError(f"{self.path}, line {node.start_mark.line + 1}: {message}", hint=hint)

    def read(self, node: yaml.Node, at: At, depth: int) -> object:
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise self.wrong(
                node, f"more than {MAX_PARTS} keys and values, with aliases resolved.", "Remove aliases of aliases."
            )
        if depth > MAX_DEPTH:
            raise self.wrong(
                node, f"nested more than {MAX_DEPTH} levels deep.", "Check for an alias that contains itself."
            )
        self.lines.setdefault(at, node.start_mark.line + 1)
        self._harmless(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(one, (*at, place), depth + 1) for place, one in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at, depth)
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        """Convert a key or a plain value."""
        text = str(node.value)
        number = str(node.tag).rpartition(":")[2] in ("int", "float", "timestamp")
        if number and len(text) > MAX_NUMBER_CHARS:
            raise self.wrong(
                node,
                f"a number has more than {MAX_NUMBER_CHARS} characters.",
                "Put it in quotes if it is a string or a key.",
            )
        if has_lone_surrogate(text):
            raise self.wrong(node, "unexpected lone surrogate, half of a character.", "Use the whole character.")
        try:
            return self.loader.construct_object(node)
        except (ValueError, OverflowError):
            raise self.wrong(node, "invalid date or number; put it in quotes.") from None

    def _harmless(self, node: yaml.Node) -> None:
        word = str(node.tag).removeprefix("tag:yaml.org,2002:")
        if word == "merge":
            raise self.wrong(node, "unsupported merge key <<; write the keys out, or use an alias for a whole value.")
        if word not in _HARMLESS:
            raise self.wrong(node, "unsupported tag (!…); remove it, or put the value in quotes.")

    def _mapping(self, node: yaml.MappingNode, at: At, depth: int) -> dict[object, object]:
        found: dict[object, object] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(key, "expected a plain key before the colon, got a list or a mapping.")
            self._harmless(key)
            word = self._scalar(key)
            if isinstance(word, bool):
                raise self.wrong(key, f"expected a string as the key, got true or false. {_AS_BOOLEAN}.")
            if word in found:
                raise self.wrong(key, f"duplicate key {word!r}.", "Remove one of them.")
            self.lines[(*at, word)] = key.start_mark.line + 1
            found[word] = self.read(value, (*at, word), depth + 1)
        return found
