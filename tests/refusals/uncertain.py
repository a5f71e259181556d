"""Uncertain streams."""

from tests.refusals.case import Case

TITLE = "Uncertain streams"
_UNANSWERED = {
    "match At -> At within 5 events selection successor": ("has a window in events", "a window in time"),
    "match At -> At within forever after match skip past last": ("skips after a match", "leave the skip out"),
    "match At & Door within 5 seconds after match skip none": ("steps in any order", "write both orders"),
    "match At -> not Door for 2 seconds within forever after match skip none": ("ends with an absence", "end with an event"),
    "match At -> At within forever partition by place.floor selection successor": ("a part of a column", "make it a column"),
    "match At -> At within 5 seconds selection successor suppress 1 minute": ("suppresses matches", "`tell=ps.alerts(…)`"),
    "match At -> At within 5 seconds selection successor report timeouts": ("reports attempts that timed out", "leave it out"),
    "match not Door for 1 second -> At within 5 seconds selection successor": ("begins with an absence", "begin with an event"),
}  # fmt: skip
_NEXT = 'pattern("match At a -> At b within forever selection successor")'
CASES = (
    *(Case(f'pattern("{text}").match(believed())', reason, instead) for text, (reason, instead) in _UNANSWERED.items()),
    Case(f"{_NEXT}.count(believed())", "asks about matches", "`tell=ps.expected()`"),
    Case(f"{_NEXT}.match(believed(), horizon=START)", "A horizon is for streams of certain events", "leave rows out"),
    Case('pattern("match At -> At within forever partition by place selection successor").match(readings())', "depends on the step before", "partition by a key"),
    Case('pattern("match At a -> At b [place > a.place] within forever selection successor").match(readings())', "has to be sampled", "`inference='smooth'`"),
    Case('pattern("pattern p match At a within 1 second selection successor pattern q match p x -> p y within 1 hour selection successor").match(believed())', "takes matches of", "one pattern"),
    Case(f'{_NEXT}.draw(stream=rows)', "shows what is believed", "`why_not(…)`"),
    Case("ps.learn(believed())", "A model is learnt from readings", "`reading=…, model=…`"),
    Case("ps.learn(readings().beside(believed(event='Door')))", "others are beside it", "learn each by itself"),
    Case(f'{_NEXT}.detect(readings(stream, inference="smooth"))', "needs all readings there will be", "`'filter'` or `'lag(5)'`", spark=True),
    Case(f'{_NEXT}.detect(readings(stream, inference="particles(10)"))', "Particles are for finished data", "`'filter'`", spark=True),
    Case('pattern("match At a -> At b within forever partition by who selection successor").detect(readings(stream, inference="lag(5)", every=None))', "lag counts steps", "`every='1 second'`", spark=True),
    Case(f'{_NEXT}.draw("png", stream=believed(), key="ann")', "Beliefs are not drawn as 'png'", "`text` or `svg`"),
    Case(f'{_NEXT}.draw(stream=believed().beside(believed(event="Door")), key="ann")', "A drawing is of one uncertain stream", "draw each by itself"),
    Case('ps.learn(readings([{"ts": START, "who": "ann", "r": "A", "t": "a"}, {"ts": START, "who": "ann", "r": "B", "t": "a"}]), truth="t")', "several readings", "a shorter step"),
    Case('pattern("pattern p match At a -> At b within 5 seconds partition by who selection successor pattern q match At a -> At b within 5 seconds selection successor").detect(believed_df)', "partition events differently", "separately", spark=True),
    Case(f"{_NEXT}.detect(readings(df), rejected=True)", "rejected=True is for streams of", "`ps.progress(query)`", spark=True),
)  # fmt: skip
