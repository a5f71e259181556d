"""All engines of the report, in the order of its tables."""

from __future__ import annotations

from bench.report import batch, in_memory, streams, trino_peer
from bench.report.engines import Engine

QUERIES = ("Q1", "Q1n", "Q2", "Q3", "Q4")
_NO_SKIP = {
    "Q1": "SQL without row patterns cannot skip past a match: whether a row may begin one depends on all before"
}

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "perseid-local",
            "Perseid, local",
            "batch",
            "one process without Spark, all cores",
            batch.open_local,
            ours=True,
        ),
        Engine(
            "perseid-spark",
            "Perseid on Spark",
            "batch",
            "all cores, two shuffle partitions per core",
            batch.open_perseid,
            ours=True,
        ),
        Engine(
            "spark-sql",
            "Spark SQL by hand",
            "batch",
            "window functions and self joins, the fastest forms found; the session of Perseid on Spark",
            batch.open_spark_sql,
            unsupported=_NO_SKIP,
        ),
        Engine(
            "duckdb",
            "DuckDB, SQL by hand",
            "batch",
            "window functions, self joins and as-of joins, the fastest forms found; all cores",
            batch.open_duckdb,
            unsupported=_NO_SKIP,
            compiles_at_runtime=False,
        ),
        Engine(
            "trino",
            "Trino",
            "batch",
            "`MATCH_RECOGNIZE`, one server on this machine, with the client's HTTP requests",
            trino_peer.open_trino,
        ),
        Engine(
            "perseid-stream",
            "Perseid on a Spark stream",
            "stream",
            "the triggers of a query, with checkpoints; matches go to the memory sink",
            streams.open_perseid,
            ours=True,
        ),
        Engine(
            "flink-sql",
            "Flink SQL",
            "stream",
            "`MATCH_RECOGNIZE` (Q4: an outer join); from RUNNING of the first task to FINISHED of the last; state on the "
            "heap, no checkpoints",
            streams.open_flink_sql,
        ),
        Engine("flink-cep", "Flink CEP", "stream", "Java; the same times and state", streams.open_flink_cep),
        Engine(
            "spark-state",
            "applyInPandasWithState by hand",
            "stream",
            "Python, one group per key; the triggers of a query, with checkpoints",
            streams.open_group_state,
        ),
        Engine(
            "spark-processor",
            "transformWithStateInPandas by hand",
            "stream",
            "Python, one group per key, RocksDB; the triggers of a query, with checkpoints",
            streams.open_processor,
        ),
        Engine(
            "perseid-memory",
            "Perseid in memory",
            "memory",
            "arrays in the order of time; drops events that no step takes, orders by key, searches",
            in_memory.open_perseid,
            ours=True,
        ),
        Engine("esper", "Esper", "memory", "sends objects to a compiled and deployed statement", in_memory.open_esper),
        Engine(
            "siddhi",
            "Siddhi",
            "memory",
            "sends objects to a deployed app; for Q3 the callback adds up the first eight B",
            in_memory.open_siddhi,
        ),
    )
}
