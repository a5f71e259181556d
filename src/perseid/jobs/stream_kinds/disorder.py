"""Settings of ``disorder:``, the strategy for records that arrive out of order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from perseid.deprecated import RENAMED_STRATEGY_KEYS
from perseid.engines.disorder.strategy import DEFAULT_PUNCTUATION, STRATEGIES, Strategy
from perseid.jobs.choices import ByKey
from perseid.settings import Settings


class BufferSettings(Settings):
    """Emit matches when the watermark has made them final."""


class AssembleSettings(Settings):
    """Emit a match when it is complete and no later record can invalidate it."""


class EarlySettings(Settings):
    """Emit a match when it is complete; retract it if a later record invalidates it."""


class AggressiveSettings(Settings):
    """Emit every match of the records that have arrived; retract it if a late record invalidates it."""


class AdaptiveSettings(Settings):
    """Wait for the measured delay that only a fraction of the records exceeds, and drop these records as late."""

    loss: float = Field(default=0.01, ge=0, lt=1)
    """The fraction of records that may be dropped as late."""


class ConservativeSettings(Settings):
    """Emit the matches that punctuations in the stream have made final."""

    renamed_keys: ClassVar[Mapping[str, str]] = RENAMED_STRATEGY_KEYS["conservative"]
    punctuation: str = DEFAULT_PUNCTUATION
    """The column that makes a row a punctuation: ``key`` for its key, ``all`` for every key, null for an event."""
    source: str | None = None
    """The column with the scope of a punctuation; without it, the event type."""
    sources: list[str] = Field(default_factory=list)
    """All values of that column."""


class AutoSettings(Settings):
    """``assemble`` for patterns that it supports, ``buffer`` for all others."""


STRATEGY_SETTINGS: dict[str, type[Settings]] = {
    "buffer": BufferSettings,
    "assemble": AssembleSettings,
    "early": EarlySettings,
    "aggressive": AggressiveSettings,
    "adaptive": AdaptiveSettings,
    "conservative": ConservativeSettings,
    "auto": AutoSettings,
}
"""Settings of each strategy, by the name of the strategy in ``ps.events(…, disorder=)``."""
DisorderOf = Annotated[Settings, ByKey(lambda: STRATEGY_SETTINGS, "strategy", bare=True)]


def create_strategy(settings: Settings) -> Strategy:
    """Create the strategy that the settings describe."""
    name = next(name for name, kind in STRATEGY_SETTINGS.items() if type(settings) is kind)
    options = settings.model_dump()
    if "sources" in options:
        options["sources"] = tuple(options["sources"])
    return STRATEGIES[name](**options)
