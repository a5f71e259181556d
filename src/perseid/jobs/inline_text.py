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


def read_text(source: Path | InlineText, setting: str) -> str:
    """Return the text of a setting; an error names the setting and the file."""
    if isinstance(source, InlineText):
        return source.text
    try:
        return source.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{setting}: {source} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{setting}: {source} is not UTF-8 text.") from None
