"""Jobs: combinations of words that a job's file may not have."""

from tests.refusals.case import Case

TITLE = "Jobs"
_BROKEN = {
    ("  lateness: 10 minutes\\n", "  order: arrival\\n"): ("add lateness: 10 minutes", "`lateness` beside `order: arrival`"),
    ("  lateness", "  order: arrival\\n  disorder: early\\n  lateness"): ("order: arrival expects records in order", "one of the two"),
    ("  lateness", "  sources: {A: {files: {path: a, format: parquet}}}\\n  lateness"): ("expected exactly one of source: {…} and sources:", "one of the two"),
    ("  lateness", "  id: position\\n  lateness"): ("use id: content, or columns", "`id: content`"),
    ("  lateness", "  time: {A: ts}\\n  lateness"): ("time by event type needs sources by event type", "`sources`"),
    ("  lateness", "  max_ahead: 0 seconds\\n  lateness"): ("a duration is above zero", "`max_ahead: 1 hour`, or `none`"),
    ("limits: {policy: dead_letter}\\n", ""): ("add dead_letters: {…}", "a place for dead letters"),
}  # fmt: skip
CASES = tuple(
    Case(f'job("{old}", "{new}")', reason, instead, error="JobFileError")
    for (old, new), (reason, instead) in _BROKEN.items()
)
