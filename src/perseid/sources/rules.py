"""Rules that stop a job by its records as a whole: when too many are malformed, or too many late."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from perseid.settings import Settings

Counts = tuple[int, int]
"""Of one batch: records, and those among them that the rule counts."""


class StopRule(Settings):
    """Stop a job whose records are malformed too often: that is no bad record, but a wrong topic or a new schema."""

    share: float = Field(ge=0, lt=1, examples=[0.05])
    """The share of malformed records above which the job stops; 0 stops at the first."""
    of: int = Field(default=1000, gt=0)
    """Records that count: the newest batches that together have as many. With fewer, nothing is said yet."""

    def counted(self, batches: Sequence[Counts]) -> list[Counts]:
        """Of batches in their order, the last ones that the rule goes by; earlier ones can be forgotten."""
        seen, kept = 0, []
        for read, bad in reversed(batches):
            if seen >= self.of:
                break
            seen += read
            kept.append((read, bad))
        return kept[::-1]

    def why_stop(self, batches: Sequence[Counts]) -> str | None:
        """Why the job has to stop, as a sentence; None where it goes on."""
        counted = self.counted(batches)
        read, bad = sum(read for read, _ in counted), sum(bad for _, bad in counted)
        if read < self.of or bad <= self.share * read:
            return None
        return f"Of the last {read} records {bad} were malformed, {bad / read:.1%}; the job was told to stop above {self.share:.1%}."


class LateRule(StopRule):
    """Stop a job whose records are late too often: the watermark is too far ahead, or its delay is too short."""

    share: float = Field(ge=0, lt=1, examples=[0.5])
    """The share of late records above which the job stops; 0 stops at the first."""
    of: int = Field(default=1000, gt=0)
    """Records that count: the newest batches in which as many reached the patterns. With fewer, nothing is said yet."""

    def why_stop(self, batches: Sequence[Counts]) -> str | None:
        counted = self.counted(batches)
        reached, late = sum(rows for rows, _ in counted), sum(late for _, late in counted)
        if reached < self.of or late <= self.share * reached:
            return None
        return (
            f"Of the last {reached} records that reached the patterns {late} were late, {late / reached:.1%}; limits.late "
            f"stops the job above {self.share:.1%}. If the watermark is ahead of the clock, follow 'A watermark in the future' "
            "in docs/guides/operations.md; else write a longer lateness."
        )
