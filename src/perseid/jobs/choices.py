"""One of several kinds of a thing in a job's file, told apart by a word, so that a mistake is told of the kind that was meant.

``{kafka: {…}}`` is told apart by its only key, ``{kind: beliefs, …}`` by a word of its own. Kinds are looked up when a file is
read: a registry may have grown since.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from perseid.errors import did_you_mean
from perseid.settings import Settings

Kinds = Callable[[], Mapping[str, type[Settings]]]
INSIDE = "inside"
"""The type of an error that stands for those of the kind that was chosen."""
_WORD = re.compile(r"[A-Za-z][A-Za-z_]{0,30}")


def wrong(text: str, at: tuple[str, ...] = ()) -> PydanticCustomError:
    """An error in words of ours, of a word below; braces in them are braces."""
    return PydanticCustomError("said", "{said}", {"said": text, "at": at})


def shown(word: object) -> str:
    """A word that somebody wrote where a kind is named, if it can be no secret."""
    return f" {word!r}" if isinstance(word, str) and _WORD.fullmatch(word) else ""


def read_as(kind: type[BaseModel], given: object, at: tuple[str, ...] = ()) -> BaseModel:
    """Read something as one kind; what is wrong in it is told as of that kind."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise PydanticCustomError(INSIDE, "inside", {"error": error, "kind": kind, "at": at}) from None


@dataclass(frozen=True)
class ByKey:
    """``{kafka: {…}}``: the only key says the kind; a kind that needs no words may be a bare word."""

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
            raise wrong(
                (f"this names {len(given)} things, and it is one {self.what}" if several else f"this is no {self.what}")
                + f"; write {{{example}: {{…}}}}, with one of: {there}"
            )
        ((word, words),) = given.items()
        if word not in kinds:
            raise wrong(f"there is no {self.what}{shown(word)}.{did_you_mean(str(word), kinds)} There is: {there}")
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
    """``{kind: beliefs, …}``: a word among the others says the kind; without it, it is the first."""

    kinds: Kinds
    what: str
    word: str = "kind"

    def read(self, given: object) -> BaseModel:
        kinds = self.kinds()
        if isinstance(given, Settings):
            return given
        if not isinstance(given, Mapping):
            raise wrong(f"this is no {self.what}; write its words below it, as {self.word}: {next(iter(kinds))}")
        named = given.get(self.word, next(iter(kinds)))
        if not isinstance(named, str) or named not in kinds:
            raise wrong(
                f"there is no kind{shown(named)} of {self.what}.{did_you_mean(str(named), kinds)}"
                f" There is: {', '.join(kinds)}",
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
