"""Sequences and contexts."""

from tests.refusals.case import Case

TITLE = "Sequences and contexts"
_FED = "pattern p match A a partition by user return a.host as host pattern q match p x -> p y within 1 hour "
CASES = (
    Case('pattern("pattern p match A a partition by s.k pattern q match p x -> p y within 1 hour partition by s.k").detect(ps.events(df.selectExpr("*", "named_struct(\'k\', 1) as s")))', "needs 's' in every event", "return the field as a column", error="UnknownNameError", spark=True),
    Case('pattern("match found busy b").match(rows)', "asks for queries over a live model", "declare the stream with `ps.model`"),
    Case('pattern("match S << //a->x >>").match(rows)', "asks for trees in documents", "declare the stream with `ps.documents`"),
    Case('pattern("pattern p match A pattern q match B").why_not(rows)', "why_not is asked of one pattern", "`patterns['p'].why_not(…)`"),
    Case('pattern("match A a -> A b within 1 hour").match(rows, tell=ps.above(0.5))', "about probabilities", "`ps.beliefs`, or leave `tell` out"),
    Case(f'pattern("{_FED} partition by host").detect(ps.events(df))', "across keys: one is partitioned by host, the other by user", "two queries", spark=True),
    Case('pattern("pattern p match A a partition by user return upper(a.xml) as user pattern q match p x partition by user").detect(ps.events(df))', "which is its key too", "return it under another name", spark=True),
    Case('pattern("pattern p match A a partition by user return a.host as host pattern q match p x -> A f within 1 hour partition by user return evidence").detect(ps.events(df))', "and gives evidence", "return what you need", spark=True),
    Case('pattern("match A a ->> A b ->> A c within 1 hour").match(ps.events(60 * rows, max_matches=1_000))', "Pattern p exceeded its search budget: more than 1,600 matches for one key with 60 events", "a shorter `within`, `->`, or a larger `max_matches`", error="SearchBudgetError"),
    Case('pattern("match A+ a -> A+ b where count(b) = 0 within 1 hour").match(ps.events(900 * rows, max_steps=1))', "Pattern p exceeded its search budget: more than 90,001 steps for one key with 900 events", "an upper bound such as `A{1,5}`, or a larger `max_steps`", error="SearchBudgetError"),
)  # fmt: skip
