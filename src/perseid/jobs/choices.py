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


def read_as(kind: type[BaseModel], value: object, at: tuple[str, ...] = ()) -> BaseModel:
    """Validate a value as settings of one kind; errors refer to that kind."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise PydanticCustomError(INSIDE, "inside", {"error": error, "kind": kind, "at": at}) from None


@dataclass(frozen=True)
class ByKey:
    """``{kafka: {…}}``: the only key chooses the kind; a kind without required settings may be a bare name."""

    kinds: Kinds
    label: str
    bare: bool = False

    def read(self, value: Any) -> BaseModel:
        kinds = self.kinds()
        available = ", ".join(kinds) or "none"
        if isinstance(value, Settings):
            return value
        if isinstance(value, str) and self.bare:
            value = {value: {}}
        if not isinstance(value, Mapping) or len(value) != 1:
            several = isinstance(value, Mapping) and len(value) > 1
            example = next(iter(kinds), self.label)
            raise invalid_setting(
                (f"expected one {self.label}, got {len(value)} keys" if several else f"expected a {self.label}")
                + f"; use {{{example}: {{…}}}}. Available: {available}."
            )
        ((name, settings),) = value.items()
        if name not in kinds:
            raise invalid_setting(
                f"unknown {self.label}{shown(name)}.{did_you_mean(str(name), kinds)} Available: {available}."
            )
        return read_as(kinds[name], {} if settings is None else settings, (name,))

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
        alternatives: list[JsonSchemaValue] = [
            {
                "type": "object",
                "title": f"{self.label}: {word}",
                "properties": {word: handler(kind.__pydantic_core_schema__)},
                "required": [word],
                "additionalProperties": False,
            }
            for word, kind in kinds.items()
        ]
        plain = [word for word, kind in kinds.items() if not any(f.is_required() for f in kind.model_fields.values())]
        if self.bare and plain:
            alternatives.append({"type": "string", "enum": plain})
        return {"anyOf": alternatives}


@dataclass(frozen=True)
class ByWord:
    """``{kind: uncertain, …}``: the value of a key chooses the kind; without the key, the first kind is chosen."""

    kinds: Kinds
    label: str
    word: str = "kind"
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New names of kinds by the deprecated ones."""

    def read(self, value: object) -> BaseModel:
        kinds = self.kinds()
        if isinstance(value, Settings):
            return value
        if not isinstance(value, Mapping):
            raise invalid_setting(
                f"expected a mapping with the settings of a {self.label}, such as {self.word}: {next(iter(kinds))}"
            )
        named = value.get(self.word, next(iter(kinds)))
        if isinstance(named, str) and named in self.renamed:
            warn_deprecated(f"{self.word}: {named} in a job file", f"{self.word}: {self.renamed[named]}")
            named = self.renamed[named]
            value = {**value, self.word: named}
        if not isinstance(named, str) or named not in kinds:
            raise invalid_setting(
                f"unknown kind{shown(named)} of {self.label}.{did_you_mean(str(named), kinds)}"
                f" Available: {', '.join(kinds)}.",
                (self.word,),
            )
        return read_as(kinds[named], value)

    def written(self, value: BaseModel) -> dict[str, object]:
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.written)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(kind.__pydantic_core_schema__) for kind in self.kinds().values()]}
