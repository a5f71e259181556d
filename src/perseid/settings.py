"""What a job is told of its parts: read from a file, checked, and never the place of a secret itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from perseid.errors import MissingExtraError, PerseidError
from perseid.redaction import register_secret

try:
    from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
except ImportError:  # pragma: no cover - said where a job is run
    raise MissingExtraError("Jobs, sources and sinks need pydantic.", hint="pip install 'perseid[jobs]'") from None

from pydantic_core import PydanticCustomError

from perseid.api.streams import micros_of

MAX_SECRET = 65_536
"""Bytes that a file with a secret may have."""


class SettingsError(PerseidError):
    """Something is wrong with what a job was told."""


class Settings(BaseModel):
    """The words of one part of a job; a word it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class Secret(Settings):
    """Where a secret is, never what it is: ``{env: NAME}`` or ``{file: PATH}``."""

    env: str | None = None
    """The environment variable that holds it."""
    file: Path | None = None
    """The file that holds it; a line end after it is not part of it."""

    @model_validator(mode="before")
    @classmethod
    def _no_text(cls, given: object) -> object:
        if isinstance(given, str):
            raise ValueError("a secret does not stand in the file; write {env: NAME} or {file: PATH}")
        return given

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("say {env: NAME} or {file: PATH}, one of them")
        return self

    def reveal(self) -> str:
        """What it is, read now; :func:`perseid.redaction.redact` takes it out of texts from then on."""
        value = self._read()
        register_secret(value)
        return value

    def _read(self) -> str:
        if self.env is not None:
            found = os.environ.get(self.env)
            if found is None:
                raise SettingsError(f"The environment has no variable {self.env!r}, which should hold a secret.")
            return found
        assert self.file is not None
        try:
            with self.file.open("rb") as file:
                body = file.read(MAX_SECRET + 1)
        except OSError as error:
            raise SettingsError(f"The secret's file {self.file} cannot be read: {error.strerror}.") from None
        if len(body) > MAX_SECRET:
            raise SettingsError(f"The secret's file {self.file} has more than {MAX_SECRET} bytes.")
        try:
            return body.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise SettingsError(f"The secret's file {self.file} is not UTF-8 text.") from None


def revealed(options: dict[str, str | Secret]) -> dict[str, str]:
    """Options with what their secrets are."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


def _duration(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError("a stretch of time is a text, as '10 minutes'")
    try:
        micros_of(given, "This")
    except PerseidError as error:
        raise ValueError(error.message) from None
    return given


Duration = Annotated[str, BeforeValidator(_duration), Field(examples=["10 minutes"])]
"""A stretch of time in words, as Spark and the language have it."""


def reject_removed_word(given: object, word: str, instead: str) -> None:
    """Raises for a word that earlier versions had, at its place, with what to write instead."""
    if isinstance(given, Mapping) and word in given:
        text = f"there is no such word any more; write {instead}"
        raise PydanticCustomError("said", "{said}", {"said": text, "at": (word,)})


def seconds_of(duration: str) -> float:
    """Seconds of a :data:`Duration`."""
    return (micros_of(duration, "This") or 0) / 1e6


MAX_RETRY_S = 24 * 3600
"""Seconds that failures are retried for, at most."""


def _retry_duration(given: str) -> str:
    if not 0 <= seconds_of(given) <= MAX_RETRY_S:
        raise ValueError("it is retried from 0 seconds, which is never, up to 24 hours")
    return given


RetryDuration = Annotated[Duration, AfterValidator(_retry_duration)]
"""The time that transient failures are retried for; ``0 seconds`` is never."""
