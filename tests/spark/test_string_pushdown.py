"""The SQL of ``ilike``, ``rlike`` and ``in_cidr`` has the values of the evaluator, for random and for all cased texts."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as spark_types

import perseid as ps
from perseid.lang.expressions import Call, Expr, Like, Literal, Ref
from perseid.lang.printer import print_expr
from perseid.semantics.case_folding import LAST_CASED, case_variants
from perseid.semantics.evaluate import evaluate_all
from perseid.semantics.regular_expressions import problem_of
from perseid.spark.expressions import sql_text
from tests.semantics.test_expressions import Row

TEXT = """
pattern fixed match A a [name ilike 'k%'] -> B b [name rlike '^adm'] within 1 minute partition by user
pattern expression match A a [name rlike '(?i)^adm.*[0-9]'] -> B b [name rlike '^adm.*[0-9]' or name rlike '^[a-r]'] within 1 minute
    partition by user
pattern networks match A a [in_cidr(ip, '10.0.0.0/8')] -> B b [not in_cidr(ip, '10.0.0.0/8', '2001:db8::/32')] within 20 seconds
    partition by user
pattern extracted match A a -> B b where regexp_extract(a.name, '(?i)[a-z]+', 0) = lower(b.name) within 20 seconds partition by user
"""
COLUMN = Ref(("x",))
COLUMNS_AT_ONCE = 60


def _string(value: str) -> Literal:
    return Literal("string", value)


def assert_agrees(spark: SparkSession, exprs: Sequence[Expr], texts: Sequence[str | None]) -> None:
    """Assert that Spark equals the evaluator for each expression and text."""
    frame = spark.createDataFrame(pa.table({"n": range(len(texts)), "x": pa.array(texts, pa.string())})).persist()
    try:
        for start in range(0, len(exprs), COLUMNS_AT_ONCE):
            some = exprs[start : start + COLUMNS_AT_ONCE]
            lowered = [sql_text(one, {"x": spark_types.StringType()}, time="t", type=None) for one in some]
            assert None not in lowered
            found = frame.selectExpr("n", *(f"{text} as c{i}" for i, text in enumerate(lowered))).toArrow().sort_by("n")
            for i, one in enumerate(some):
                wanted = evaluate_all(one, [Row({"x": text}) for text in texts])
                answers = found.column(f"c{i}").to_pylist()
                wrong = [row for row in zip(texts, answers, wanted, strict=True) if row[1] is not row[2]]
                assert not wrong, (print_expr(one), wrong[:3], lowered[i])
    finally:
        frame.unpersist()


def test_ilike_of_every_cased_character(spark: SparkSession) -> None:
    cased = [chr(code) for code in range(LAST_CASED + 1) if len(case_variants(chr(code))) > 1]
    # Characters that Java or a full case folding maps differently.
    odd = ["İ", "ı", "ŉ", "ǰ", "ΐ", "ﬀ", "ß", "ᾳ", "A\u0307", "i\u0307", "ΑΣ", "ας", "ασ", "ss", "ff"]
    rng = random.Random(7)
    chosen = {case_variants(char) for char in "aksSßΣϑµåέю😀İıiﬁ%_" if char not in "%_"} | {
        case_variants(one) for one in odd if len(one) == 1
    }
    chosen |= {case_variants(char) for char in rng.sample(cased, 150)}
    exprs = [Like(COLUMN, _string(rng.choice(one)), op="ilike") for one in sorted(chosen)]
    assert_agrees(spark, exprs, [*cased, *odd, "", None])


def test_ilike_of_random_strings(spark: SparkSession) -> None:
    rng = random.Random(11)
    letters = "aAbBkK\u212asSſßẞσΣςİıiI𐐀𐐨%_\\ é\n"
    texts = ["".join(rng.choices(letters, k=rng.randrange(7))) for _ in range(600)]
    patterns = ["".join(rng.choices(letters + "%%%", k=rng.randrange(6))) for _ in range(240)]
    exprs = [Like(COLUMN, _string(one), rng.random() < 0.3, "ilike") for one in patterns]
    columns = {"x": spark_types.StringType()}
    pushed = [one for one in exprs if sql_text(one, columns, time="t", type=None) is not None]
    assert len(pushed) > 120
    assert_agrees(spark, pushed, [*texts, None])


def test_searches_for_fixed_strings(spark: SparkSession) -> None:
    rng = random.Random(13)
    pieces = ["a", "b", "é", "😀", r"\.", r"\\", r"\$", r"\^", "-", "_", "%", "'", "\n", r"\-", r"\'"]
    expressions = [
        rng.choice(["", "^"]) + "".join(rng.choices(pieces, k=rng.randrange(4))) + rng.choice(["", "$"])
        for _ in range(240)
    ]
    expressions = [one for one in expressions if problem_of(one) is None]
    assert len(expressions) > 200
    texts = ["".join(rng.choices("abé😀.\\$^-_%'\n", k=rng.randrange(6))) for _ in range(800)]
    assert_agrees(
        spark, [Like(COLUMN, _string(one), rng.random() < 0.3, "rlike") for one in expressions], [*texts, None]
    )


def _addresses(rng: random.Random) -> list[str | None]:
    texts: list[str | None] = [
        None,
        "",
        "::",
        "::1",
        "10.0.0.1\n",
        "\n10.0.0.1",
        "1.2.3.4.5",
        "256.1.1.1",
        "01.2.3.4",
        "10.0.0.1" * 20,
        ":" * 45,
        "1:" * 22,
    ]
    for _ in range(900):
        number = rng.choice(
            [rng.getrandbits(128), rng.getrandbits(16) << rng.randrange(112), 0xFFFF << 32 | rng.getrandbits(32)]
        )
        six, four = ipaddress.IPv6Address(number), str(ipaddress.IPv4Address(rng.getrandbits(32)))
        near = str(ipaddress.IPv4Address(0x0A000000 ^ (1 << rng.randrange(32))))
        mixed = ":".join([*six.exploded.split(":")[:6], four])
        short = str(six).rsplit(":", 1)[0] + ":" + four
        text = rng.choice([four, near, near, str(six), six.exploded.upper(), mixed, short])
        if rng.random() < 0.4:
            at, char = rng.randrange(len(text) + 1), rng.choice(":.0af19 %/g٣\n")
            text = rng.choice(
                [text[:at] + char + text[at:], text[:at] + text[at + 1 :], text[:at] + char + text[at + 1 :]]
            )
        texts.append(text)
    return texts


def test_dataframes_and_local_rows_have_the_same_matches(spark: SparkSession) -> None:
    rng = random.Random(19)
    addresses = [text for text in _addresses(rng) if text is None or "\n" not in text][:40]
    rows = [
        {
            "ts": i,
            "type": rng.choice(["A", "B"]),
            "user": rng.choice(["ann", "bob"]),
            "name": rng.choice(["admin", "ADMIN7", "Kim", "\u212aim", "root", "", None]),
            "ip": rng.choice([*addresses, "10.0.0.7", "10.2.0.1", "2001:db8::1"]),
        }
        for i in range(300)
    ]
    patterns = ps.patterns(TEXT)
    data = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    frame = spark.createDataFrame(data).withColumn("ts", f.timestamp_seconds("ts"))
    local = ps.events([row | {"ts": datetime.fromtimestamp(row["ts"], UTC)} for row in rows])
    wanted = sorted((m.pattern, m.start_us, m.end_us) for m in patterns.match(local))
    found = patterns.match(ps.events(frame)).selectExpr("pattern", "unix_micros(start)", "unix_micros(end)").collect()
    assert sorted(map(tuple, found)) == wanted
    assert {name for name, _, _ in wanted} == {"fixed", "expression", "networks", "extracted"}
    said = " ".join(patterns["fixed"].explain(ps.events(frame)).split())
    assert "in Catalyst name ilike 'k%'" in said
    said = " ".join(patterns["expression"].explain(ps.events(frame)).split())
    assert "on executors name rlike '(?i)^adm.*[0-9]' (no exact equivalent in Spark SQL)" in said


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_in_cidr(spark: SparkSession, ansi: str) -> None:
    rng = random.Random(17)
    networks = ["0.0.0.0/0", "10.0.0.0/8", "255.255.255.255", "128.0.0.0/1"]
    networks += [
        str(ipaddress.ip_network((rng.choice([0x0A000000, rng.getrandbits(32)]), rng.randint(1, 32)), strict=False))
        for _ in range(26)
    ]
    exprs = [
        Call("in_cidr", (COLUMN, *map(_string, rng.sample(networks, rng.choice([1, 1, 2, 4]))))) for _ in range(40)
    ]
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert_agrees(spark, exprs, _addresses(rng))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
