"""Jobs: combinations of options that a job file must not have."""

from tests.refusals.case import Case

TITLE = "Jobs"
_BROKEN = {
    ("  lateness: 10 minutes\\n", "  order: arrival\\n"): ("stream: missing lateness, the maximum lateness of a record; add lateness: 10 minutes", "`lateness` beside `order: arrival`"),
    ("  lateness", "  order: arrival\\n  disorder: early\\n  lateness"): ("stream: order: arrival expects records in order, and disorder expects them out of order; remove one of them", "one of the two"),
    ("  lateness", "  sources: {A: {files: {path: a, format: parquet}}}\\n  lateness"): ("stream: expected exactly one of source: {…} and sources: {Type: {…}, …} by event type", "one of the two"),
    ("  lateness", "  id: position\\n  lateness"): ("stream: id: position needs records of Kafka; use id: content, or columns: id: [order_no]", "`id: content`"),
    ("  lateness", "  time: {A: ts}\\n  lateness"): ("stream: time by event type needs sources by event type; use column names without event types", "`sources`"),
    ("  lateness", "  max_ahead: 0 seconds\\n  lateness"): ("stream.max_ahead: expected the maximum time by which a record may be ahead of its arrival, such as 1 hour, or none; a duration is above zero and at most 10,000 days", "`max_ahead: 1 hour`, or `none`"),
    ("limits: {policy: dead_letter}\\n", ""): ("policy: dead_letter needs a sink for dead letters; add dead_letters: {…}", "`dead_letters: {…}`"),
}  # fmt: skip
CASES = tuple(
    Case(f'job("{old}", "{new}")', reason, instead, error="JobFileError")
    for (old, new), (reason, instead) in _BROKEN.items()
)
