"""Jobs: combinations of words that a job's file may not have."""

from tests.refusals.case import Case

TITLE = "Jobs"
_BROKEN = {
    ("  lateness: 10 minutes\\n", "  order: arrival\\n"): ("write lateness: 10 minutes", "`lateness` beside `order: arrival`"),
    ("  lateness", "  order: arrival\\n  disorder: early\\n  lateness"): ("order: arrival trusts that records come in order", "one of the two"),
    ("  lateness", "  sources: {A: {files: {path: a, format: parquet}}}\\n  lateness"): ("say source: {…}, or sources:", "one of the two"),
    ("  lateness", "  id: position\\n  lateness"): ("write id: content, or name columns", "`id: content`"),
    ("  lateness", "  time: {A: ts}\\n  lateness"): ("time is told by event type", "`sources`"),
    ("  lateness", "  max_ahead: 0 seconds\\n  lateness"): ("this is not above zero", "`max_ahead: 1 hour`, or `none`"),
    ("limits: {policy: dead_letter}\\n", ""): ("write dead_letters: {…}", "a place for dead letters"),
}  # fmt: skip
CASES = tuple(
    Case(f'job("{old}", "{new}")', reason, instead, error="JobFileError")
    for (old, new), (reason, instead) in _BROKEN.items()
)
