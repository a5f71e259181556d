"""Rejected combinations for sequences and contexts."""

from tests.refusals.case import Case

TITLE = "Sequences and contexts"
_FED = "pattern p match A a partition by user return a.host as host pattern q match p x -> p y within 1 hour "
CASES = (
    Case('pattern("pattern p match A a partition by s.k pattern q match p x -> p y within 1 hour partition by s.k").match(ps.events(df.selectExpr("*", "named_struct(\'k\', 1) as s")))', "Column 's' of 'partition by' not found in p; every event needs it", "return the field as a column", error="UnknownNameError", spark=True),
    Case('pattern("match found busy b").match(rows)', "Pattern p has steps over queries over a live model, which need a graph model, not a stream of events", "declare the stream with `ps.graph.model`"),
    Case('pattern("match S << //a->x >>").match(rows)', "Pattern p has tree patterns, which need a stream of documents, not of events", "declare the stream with `ps.documents`"),
    Case('pattern("pattern p match A pattern q match B").why_not(rows)', "why_not requires one pattern, and this set has several", "`patterns['p'].why_not(…)`"),
    Case('pattern("match A a -> A b within 1 hour").match(rows, emit=ps.uncertain.above(0.5))', "emit= requires an uncertain stream, and this stream is certain", "`ps.uncertain_events`, or remove `emit=`"),
    Case(f'pattern("{_FED} partition by host").match(ps.events(df))', "Pattern q consumes matches of p across keys: q is partitioned by host, p by user", "two queries", spark=True),
    Case('pattern("pattern p match A a partition by user return upper(a.xml) as user pattern q match p x partition by user").match(ps.events(df))', "Pattern p returns 'user', which is also the name of its key; q consumes its matches, and would read the returned value as the key", "return it under another name", spark=True),
    Case('pattern("pattern p match A a partition by user return a.host as host pattern q match p x -> A f within 1 hour partition by user return evidence").match(ps.events(df))', "Pattern q consumes matches of p and returns evidence: input rows and matches have different columns", "`return` the columns that you need", spark=True),
    Case('pattern("match A a ->> A b ->> A c within 1 hour").match(ps.events(60 * rows, options=ps.StreamOptions(max_matches=1_000)))', "Pattern p exceeded its search budget: more than 1,600 matches for one key with 60 events", "a shorter `within`, `->` (this finds fewer matches), or a larger `max_matches`", error="SearchBudgetError"),
    Case('pattern("match A+ a -> A+ b where count(b) = 0 within 1 hour").match(ps.events(900 * rows, options=ps.StreamOptions(max_steps=1)))', "Pattern p exceeded its search budget: more than 90,001 steps for one key with 900 events", "an upper bound such as `A{1,5}`, or a larger `max_steps`", error="SearchBudgetError"),
)  # fmt: skip
