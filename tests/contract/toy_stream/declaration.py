"""Declaration of a toy stream, which users create and pass to ``match`` and ``explain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import perseid as ps
from perseid.runtime.declaration import Data_co, StreamDeclaration
from tests.contract.toy import Toy


@dataclass(frozen=True)
class ToyStream(StreamDeclaration[ps.types.Matches, Data_co]):
    """Rows whose patterns the toy engine matches."""

    stream_kind: ClassVar[str] = "toy"
    rows: Data_co
    """A Spark DataFrame, or any table that ``ps.events`` accepts."""
    at: str = "ts"
    """The column with the time."""
    shards: int = 16
    lateness: str | None = None
    max_ahead: str | None = None

    def events(self) -> ps.types.Events:
        """The rows as events with the disorder strategy of the toy engine."""
        return ps.events(
            self.rows,
            time=self.at,
            disorder=Toy(),
            lateness=self.lateness,
            max_ahead=self.max_ahead,
            options=ps.StreamOptions(shards=self.shards),
        )
