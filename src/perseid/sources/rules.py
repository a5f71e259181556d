"""Rules that stop a job with too many malformed records, or too many late ones."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from perseid.settings import Settings

Counts = tuple[int, int]
"""Counts of one batch: records, and those that the rule counts."""


class StopRule(Settings):
    """Stop a job with too many malformed records, as a wrong topic or a new schema causes."""

    share: float = Field(ge=0, lt=1, examples=[0.05])
    """The share of malformed records above which the job stops; 0 stops at the first."""
    of: int = Field(default=1000, gt=0)
    """Minimum number of records: the newest batches with this many in total. With fewer, the job continues."""

    def counted(self, batches: Sequence[Counts]) -> list[Counts]:
        """The newest batches that the rule evaluates, in order; earlier ones can be dropped."""
        rows, newest = 0, []
        for read, bad in reversed(batches):
            if rows >= self.of:
                break
            rows += read
            newest.append((read, bad))
        return newest[::-1]

    def stop_reason(self, batches: Sequence[Counts]) -> str | None:
        """The reason to stop the job, as a sentence; None to continue."""
        counted = self.counted(batches)
        read, bad = sum(read for read, _ in counted), sum(bad for _, bad in counted)
        if read < self.of or bad <= self.share * read:
            return None
        return (
            f"{bad} of the last {read} records were malformed ({bad / read:.1%}); limits.bad stops the job above "
            f"{self.share:.1%}."
        )


class LateRule(StopRule):
    """Stop a job with too many late records: the watermark is too far ahead, or its delay is too short."""

    share: float = Field(ge=0, lt=1, examples=[0.5])
    """The share of late records above which the job stops; 0 stops at the first."""
    of: int = Field(default=1000, gt=0)
    """Minimum number of records that reached the patterns, in the newest batches. With fewer, the job continues."""

    def stop_reason(self, batches: Sequence[Counts]) -> str | None:
        counted = self.counted(batches)
        reached, late = sum(rows for rows, _ in counted), sum(late for _, late in counted)
        if reached < self.of or late <= self.share * reached:
            return None
        return (
            f"{late} of the last {reached} records that reached the patterns were late ({late / reached:.1%}); "
            f"limits.late stops the job above {self.share:.1%}. If the watermark is ahead of the clock, "
            "follow 'A watermark in the future' in docs/guides/operations.md; otherwise increase lateness."
        )
