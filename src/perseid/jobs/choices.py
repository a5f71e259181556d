"""Settings of one of several kinds, chosen by a name in the job file, so that an error names the kind that was meant.

``{kafka: {…}}`` is chosen by its only key, ``{kind: uncertain, …}`` by the value of a key. Kinds are looked up when a file is
read, because registries can grow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from perseid.deprecated import warn_deprecated
from perseid.errors import did_you_mean
from perseid.settings import Settings, invalid_setting

Kinds = Callable[[], Mapping[str, type[Settings]]]
INSIDE = "inside"
"""Type of an error that wraps the errors of the chosen kind."""
_WORD = re.compile(r"[A-Za-z][A-Za-z_]{0,30}")


def shown(word: object) -> str:
    """Return the name that a file has for a kind, for a message; empty if it may be a secret."""
    return f" {word!r}" if isinstance(word, str) and _WORD.fullmatch(word) else ""


def read_as(kind: type[BaseModel], given: object, at: tuple[str, ...] = ()) -> BaseModel:
    """Validate a value as settings of one kind; errors refer to that kind."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise PydanticCustomError(INSIDE, "inside", {"error": error, "kind": kind, "at": at}) from None


@dataclass(frozen=True)
class ByKey:
    """``{kafka: {…}}``: the only key chooses the kind; a kind without required settings may be a bare name."""

    kinds: Kinds
    what: str
    bare: bool = False

    def read(self, given: Any) -> BaseModel:
        kinds = self.kinds()
        there = ", ".join(kinds) or "none"
        if isinstance(given, Settings):
            return given
        if isinstance(given, str) and self.bare:
            given = {given: {}}
        if not isinstance(given, Mapping) or len(given) != 1:
            several = isinstance(given, Mapping) and len(given) > 1
            example = next(iter(kinds), self.what)
            raise invalid_setting(
                (f"expected one {self.what}, got {len(given)} keys" if several else f"expected a {self.what}")
                + f"; use {{{example}: {{…}}}}. Available: {there}."
            )
        ((word, words),) = given.items()
        if word not in kinds:
            raise invalid_setting(
                f"unknown {self.what}{shown(word)}.{did_you_mean(str(word), kinds)} Available: {there}."
            )
        return read_as(kinds[word], {} if words is None else words, (word,))

    def written(self, value: BaseModel) -> dict[str, object]:
        word = next((word for word, kind in self.kinds().items() if type(value) is kind), type(value).__name__)
        return {word: value.model_dump(mode="json", by_alias=True, exclude_unset=True)}

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.written)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        kinds = self.kinds()
        if not kinds:
            return {"not": {}}
        ways: list[JsonSchemaValue] = [
            {
                "type": "object",
                "title": f"{self.what}: {word}",
                "properties": {word: handler(kind.__pydantic_core_schema__)},
                "required": [word],
                "additionalProperties": False,
            }
            for word, kind in kinds.items()
        ]
        plain = [word for word, kind in kinds.items() if not any(f.is_required() for f in kind.model_fields.values())]
        if self.bare and plain:
            ways.append({"type": "string", "enum": plain})
        return {"anyOf": ways}


@dataclass(frozen=True)
class ByWord:
    """``{kind: uncertain, …}``: the value of a key chooses the kind; without the key, the first kind is chosen."""

    kinds: Kinds
    what: str
    word: str = "kind"
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New names of kinds by the deprecated ones."""

    def read(self, given: object) -> BaseModel:
        kinds = self.kinds()
        if isinstance(given, Settings):
            return given
        if not isinstance(given, Mapping):
            raise invalid_setting(
                f"expected a mapping with the settings of a {self.what}, such as {self.word}: {next(iter(kinds))}"
            )
        named = given.get(self.word, next(iter(kinds)))
        if isinstance(named, str) and named in self.renamed:
            warn_deprecated(f"{self.word}: {named} in a job file", f"{self.word}: {self.renamed[named]}")
            named = self.renamed[named]
            given = {**given, self.word: named}
        if not isinstance(named, str) or named not in kinds:
            raise invalid_setting(
                f"unknown kind{shown(named)} of {self.what}.{did_you_mean(str(named), kinds)}"
                f" Available: {', '.join(kinds)}.",
                (self.word,),
            )
        return read_as(kinds[named], given)

    def written(self, value: BaseModel) -> dict[str, object]:
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.written)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(kind.__pydantic_core_schema__) for kind in self.kinds().values()]}
