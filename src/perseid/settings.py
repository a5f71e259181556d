"""Settings of a job's parts: read from a file, validated, with references to secrets instead of their values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, cast

from perseid.errors import MissingExtraError, PerseidError, SettingsError
from perseid.redaction import register_secret

try:
    from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
except ImportError:  # pragma: no cover - reported when a job runs
    raise MissingExtraError("Jobs, sources and sinks need pydantic.", hint="pip install 'perseid[jobs]'") from None

from pydantic_core import PydanticCustomError

from perseid.deprecated import warn_deprecated
from perseid.semantics.durations import micros_of

MAX_SECRET = 65_536
"""Maximum bytes of a file with a secret."""


class Settings(BaseModel):
    """Settings of one part of a job; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)

    renamed_keys: ClassVar[Mapping[str, str]] = {}
    """New names of keys by the deprecated ones."""

    @model_validator(mode="before")
    @classmethod
    def _replace_deprecated_keys(cls, given: object) -> object:
        old_keys = [key for key in cls.renamed_keys if key in given] if isinstance(given, Mapping) else []
        if not old_keys:
            return given
        keys = dict(cast("Mapping[str, object]", given))
        for old in old_keys:
            new = cls.renamed_keys[old]
            if new in keys:
                raise ValueError(f"{old} and {new} are given, and {old} is the deprecated name; remove {old}")
            warn_deprecated(f"{old}: in a job file", f"{new}:")
            keys[new] = keys.pop(old)
        return keys


class Secret(Settings):
    """A reference to a secret, never its value: ``{env: NAME}`` or ``{file: PATH}``."""

    env: str | None = None
    """The environment variable with the secret."""
    file: Path | None = None
    """The file with the secret; line ends after it are ignored."""

    @model_validator(mode="before")
    @classmethod
    def _no_text(cls, given: object) -> object:
        if isinstance(given, str):
            raise ValueError("a secret must not be in the file; use {env: NAME} or {file: PATH}")
        return given

    @model_validator(mode="after")
    def _one_place(self) -> Secret:
        if (self.env is None) == (self.file is None):
            raise ValueError("expected exactly one of {env: NAME} and {file: PATH}")
        return self

    def reveal(self) -> str:
        """Read the secret, and register it for redaction by :func:`perseid.redaction.redact`."""
        value = self._read()
        register_secret(value)
        return value

    def _read(self) -> str:
        if self.env is not None:
            found = os.environ.get(self.env)
            if found is None:
                raise SettingsError(f"Environment variable {self.env!r} is not set; it must hold a secret.")
            return found
        assert self.file is not None
        try:
            with self.file.open("rb") as file:
                body = file.read(MAX_SECRET + 1)
        except OSError as error:
            raise SettingsError(f"Secret file {self.file} cannot be read: {error.strerror}.") from None
        if len(body) > MAX_SECRET:
            raise SettingsError(f"Secret file {self.file} is larger than the limit of {MAX_SECRET} bytes.")
        try:
            return body.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise SettingsError(f"Secret file {self.file} is not UTF-8 text.") from None


def revealed(options: dict[str, str | Secret]) -> dict[str, str]:
    """Options with secrets replaced by their values."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


def _duration(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError("expected a duration such as '10 minutes'")
    try:
        micros_of(given, "duration")
    except PerseidError as error:
        meant = None if error.nearest is None else f"Did you mean {error.nearest}?"
        raise ValueError(" ".join(filter(None, [error.message, meant, error.hint]))) from None
    return given


Duration = Annotated[str, BeforeValidator(_duration), Field(examples=["10 minutes"])]
"""A duration in words, as in Spark and in the pattern language."""


def invalid_setting(text: str, at: tuple[str, ...] = ()) -> PydanticCustomError:
    """Create a validation error with this text, for the setting at a path below; braces in it are not formatted."""
    return PydanticCustomError("invalid_setting", "{message}", {"message": text, "at": at})


def reject_removed_word(given: object, word: str, instead: str) -> None:
    """Raise for a setting of earlier versions, at its place, with the replacement."""
    if isinstance(given, Mapping) and word in given:
        raise invalid_setting(f"this key was removed; use {instead}", (word,))


def seconds_of(duration: str) -> float:
    """Seconds of a :data:`Duration`."""
    return (micros_of(duration, "duration") or 0) / 1e6


MAX_RETRY_S = 24 * 3600
"""Maximum seconds for which failures are retried."""


def _retry_duration(given: str) -> str:
    if not 0 <= seconds_of(given) <= MAX_RETRY_S:
        raise ValueError("expected a duration from 0 seconds (no retries) to 24 hours")
    return given


RetryDuration = Annotated[Duration, AfterValidator(_retry_duration)]
"""The time for which transient failures are retried; ``0 seconds`` disables retries."""
