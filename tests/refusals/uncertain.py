"""Uncertain streams."""

from tests.refusals.case import Case

TITLE = "Uncertain streams"
_UNANSWERED = {
    "match At -> At within 5 events selection successor": ("has a window in events", "a time window"),
    "match At -> At within forever after match skip past last": ("skips after a match", "remove the skip mode"),
    "match At & Door within 5 seconds after match skip none": ("has steps in any order", "write both orders"),
    "match At -> not Door for 2 seconds within forever after match skip none": ("ends with an absence", "end with an event"),
    "match At -> At within forever partition by place.floor selection successor": ("a nested field", "make it a column"),
    "match At -> At within 5 seconds selection successor suppress 1 minute": ("suppresses matches", "`emit=ps.uncertain.alerts(…)`"),
    "match At -> At within 5 seconds selection successor report timeouts": ("reports timeouts", "remove `report timeouts`"),
    "match not Door for 1 second -> At within 5 seconds selection successor": ("begins with an absence", "begin with an event"),
}  # fmt: skip
_NEXT = 'pattern("match At a -> At b within forever selection successor")'
CASES = (
    *(Case(f'pattern("{text}").match(believed())', reason, instead) for text, (reason, instead) in _UNANSWERED.items()),
    Case(f"{_NEXT}.count(believed())", "count is not supported over uncertain streams", "`emit=ps.uncertain.expected()`"),
    Case(f"{_NEXT}.match(believed(), horizon=START)", "horizon= is not supported over uncertain streams", "fewer rows"),
    Case('pattern("match At -> At within forever partition by place selection successor").match(readings())', "depends on the previous step", "partition by a key"),
    Case('pattern("match At a -> At b [place > a.place] within forever selection successor").match(readings())', "must be sampled", "`inference='smooth'`"),
    Case('pattern("pattern p match At a within 1 second selection successor pattern q match p x -> p y within 1 hour selection successor").match(believed())', "takes matches of", "one pattern"),
    Case(f'{_NEXT}.draw(stream=rows)', "draws probabilities, and this stream is certain", "`why_not(…)`"),
    Case("ps.uncertain.learn(believed())", "learn requires readings", "`reading=…, model=…`"),
    Case("ps.uncertain.learn(readings().combine(believed(event_type='Door')))", "several are combined", "`ps.uncertain.learn` for each stream"),
    Case(f'{_NEXT}.match(readings(stream, inference="smooth"))', "needs all readings, so it is not supported on a stream", "`'filter'` or `'lag(5)'`", spark=True),
    Case(f'{_NEXT}.match(readings(stream, inference="particles(10)"))', "A particle filter is not supported on a stream", "`'filter'`", spark=True),
    Case('pattern("match At a -> At b within forever partition by who selection successor").match(readings(stream, inference="lag(5)", every=None))', "needs a step length", "`every='1 second'`", spark=True),
    Case(f'{_NEXT}.draw("png", stream=believed(), key="ann")', "Unsupported format 'png'", "`text` or `svg`"),
    Case(f'{_NEXT}.draw(stream=believed().combine(believed(event_type="Door")), key="ann")', "A drawing shows one uncertain stream", "a drawing for each stream"),
    Case('ps.uncertain.learn(readings([{"ts": START, "who": "ann", "r": "A", "t": "a"}, {"ts": START, "who": "ann", "r": "B", "t": "a"}]), truth="t")', "several readings", "a shorter step"),
    Case('pattern("pattern p match At a -> At b within 5 seconds partition by who selection successor pattern q match At a -> At b within 5 seconds selection successor").match(believed_df)', "partition events differently", "separately", spark=True),
    Case(f"{_NEXT}.match(readings(df), rejected=True)", "rejected=True is only supported on streams of", "`ps.progress(query)`", spark=True),
)  # fmt: skip
