"""Text that a job file contains or names: ``{text: …}`` or the path of a UTF-8 file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from perseid.errors import SettingsError
from perseid.settings import Settings


class InlineText(Settings):
    """Text in the job file itself."""

    text: str = Field(min_length=1)
    """The text."""


def read_text(given: Path | InlineText, setting: str) -> str:
    """Return the text of a setting; an error names the setting and the file."""
    if isinstance(given, InlineText):
        return given.text
    try:
        return given.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{setting}: {given} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {given} is not UTF-8 text.") from None
