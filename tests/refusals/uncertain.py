"""Rejected combinations for uncertain streams."""

from tests.refusals.case import Case

TITLE = "Uncertain streams"
_UNANSWERED = {
    "match At -> At within 5 events selection successor": ("Pattern p has a window in events, which is unsupported on uncertain streams", "a time window"),
    "match At -> At within forever after match skip past last": ("Pattern p has 'after match skip' or 'selection' with consumption, which is unsupported on uncertain streams", "remove `after match skip`"),
    "match At & Door within 5 seconds after match skip none": ("Pattern p has steps in any order, which is unsupported on uncertain streams", "write both orders"),
    "match At -> not Door for 2 seconds within forever after match skip none": ("Pattern p ends with 'not', which is unsupported on uncertain streams", "end with an event"),
    "match At -> At within forever partition by place.floor selection successor": ("Pattern p is partitioned by place.floor, a nested field, which is unsupported on uncertain streams", "make it a column"),
    "match At -> At within 5 seconds selection successor suppress 1 minute": ("Pattern p suppresses matches, which is unsupported on uncertain streams", "`emit=ps.uncertain.alerts(…)`"),
    "match At -> At within 5 seconds selection successor report timeouts": ("Pattern p reports timeouts, which is unsupported on uncertain streams", "remove `report timeouts`"),
    "match not Door for 1 second -> At within 5 seconds selection successor": ("Pattern p begins with 'not', which is unsupported on uncertain streams", "begin with an event"),
}  # fmt: skip
_NEXT = 'pattern("match At a -> At b within forever selection successor")'
CASES = (
    *(Case(f'pattern("{text}").match(believed())', reason, instead) for text, (reason, instead) in _UNANSWERED.items()),
    Case(f"{_NEXT}.count(believed())", "count is unsupported on uncertain streams: their results are probabilities", "`emit=ps.uncertain.expected()`"),
    Case(f"{_NEXT}.match(believed(), horizon=START)", "horizon= (a fixed watermark) is unsupported on uncertain streams", "fewer rows"),
    Case('pattern("match At -> At within forever partition by place selection successor").match(readings())', "Pattern p is partitioned by place, which is uncertain and depends on the previous step", "partition by a key"),
    Case('pattern("match At a -> At b [place > a.place] within forever selection successor").match(readings())', "Pattern p must be sampled (Unsafe: place > a.place refers to two events: the predicate is not local), but readings of At with inference='filter' cannot be sampled", "`inference='smooth'`"),
    Case('pattern("pattern p match At a within 1 second selection successor pattern q match p x -> p y within 1 hour selection successor").match(believed())', "Pattern q takes matches of p as events, which is unsupported on uncertain streams", "one pattern"),
    Case(f'{_NEXT}.draw(stream=rows)', "draw(stream=…) draws probabilities, and this stream is certain", "`why_not(…)`"),
    Case("ps.uncertain.learn(believed())", "learn requires readings, and this stream has probabilities", "`reading=…, model=…`"),
    Case("ps.uncertain.learn(readings().combine(believed(event_type='Door')))", "learn requires one uncertain stream, and several are combined", "`ps.uncertain.learn` for each stream"),
    Case(f'{_NEXT}.match(readings(stream, inference="smooth"))', "inference='smooth' of At needs all readings, so it is unsupported on a stream", "`'filter'` or `'lag(5)'`", spark=True),
    Case(f'{_NEXT}.match(readings(stream, inference="particles(10)"))', "A particle filter is unsupported on a stream", "`'filter'`", spark=True),
    Case('pattern("match At a -> At b within forever partition by who selection successor").match(readings(stream, inference="lag(5)", every=None))', "On a stream, inference='lag(…)' needs a step length", "`every='1 second'`", spark=True),
    Case(f'{_NEXT}.draw("png", stream=believed(), key="ann")', "Unsupported format 'png' for a drawing of an uncertain stream", "`text` or `svg`"),
    Case(f'{_NEXT}.draw(stream=believed().combine(believed(event_type="Door")), key="ann")', "A drawing shows one uncertain stream, got 2", "a drawing for each stream"),
    Case('ps.uncertain.learn(readings([{"ts": START, "who": "ann", "r": "A", "t": "a"}, {"ts": START, "who": "ann", "r": "B", "t": "a"}]), truth="t")', "Some steps have several readings, but learning needs at most one for each step", "a shorter step"),
    Case('pattern("pattern p match At a -> At b within 5 seconds partition by who selection successor pattern q match At a -> At b within 5 seconds selection successor").match(believed_df)', "These patterns partition events differently", "a query for each partitioning", spark=True),
    Case(f"{_NEXT}.match(readings(df), rejected=True)", "rejected=True is unsupported on uncertain streams", "`ps.progress(query)`", spark=True),
)  # fmt: skip
