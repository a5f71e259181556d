"""Output of tree patterns: every document has all its results, or the output limit as its error."""

from __future__ import annotations

import random
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.trees import match_layout as y
from perseid.engines.trees import matcher as matching
from perseid.engines.trees.engine import TreesPlan, prepare
from perseid.engines.trees.limits import GROWTH_ALLOWANCE_BYTES, MAX_GROWTH
from perseid.engines.trees.matcher import LARGEST_ROWS
from perseid.engines.trees.progress import ProgressGuard
from perseid.engines.trees.reader import Findings
from perseid.errors import DocumentError, LimitError, StalledMatcherError
from tests.engines.tree_texts import compile_texts, reader_of

SECONDS = 20.0
"""Maximum time of one call on a slow, loaded machine."""
PATTERN = "//a->a[//b->b]"
TOO_MUCH = "Results have more than 256 times the bytes of the document plus 64 MB"


@contextmanager
def time_limit(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TimeoutError if the block does not end in time."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not finished after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_compiled() -> None:
    """Compile the kernels first, so that compilation does not count toward the time of a document."""
    reader_of([PATTERN]).read(pa.array(["<a/>"]))


def nested(n: int) -> str:
    return "<a>" * n + "<b>z</b>" * n + "</a>" * n


def nested_json(n: int) -> str:
    return '{"a":' * n + '{"b":[' + ",".join(['"z"'] * n) + "]}" + "}" * n


def output_bytes(n: int) -> int:
    """Return the output bytes of PATTERN on nested(n): nodes, then the texts of a and of all b in each result."""
    return 8 * y.ROW_WIDTH * n * (n + 1) + 2 * n * n


def largest_within_limit() -> int:
    n = 1
    while output_bytes(n + 1) <= MAX_GROWTH * len(nested(n + 1)) + GROWTH_ALLOWANCE_BYTES:
        n += 1
    return n


def match(pattern: str, *bodies: str, **more: Any) -> Any:
    documents = ps.documents([{"id": i, "body": body} for i, body in enumerate(bodies)], body="body", **more)
    with time_limit():
        return ps.xml.tree_patterns(pattern).match(documents)


def require_complete(found: Any, n: int) -> None:
    assert found.column("error").null_count == n
    assert found.column("b").to_pylist() == [["z"] * n] * n
    assert found.column("a").to_pylist() == [["z" * n]] * n


# 511 * 512 rows fit into LARGEST_ROWS, 512 * 513 do not.
@pytest.mark.parametrize("n", [1, 510, 511, 512, 513, 515])
def test_output_around_the_capacity_for_small_documents_is_complete(n: int) -> None:
    assert (n * (n + 1) <= LARGEST_ROWS) == (n < 512)
    begun = time.process_time()
    require_complete(match(PATTERN, nested(n)), n)
    assert time.process_time() - begun < SECONDS / 4


@pytest.mark.parametrize("n", [511, 512, 515])
def test_output_of_json_around_the_capacity_for_small_documents_is_complete(n: int) -> None:
    require_complete(match(PATTERN, nested_json(n), format="json"), n)


@pytest.mark.parametrize(
    ("depth", "size"),
    [(4, (1 << 20) - 1), (4, 1 << 20), (4, (1 << 20) + 1), (5, 1_000_000), (50, 100_000), (2, 3_000_000)],
)
def test_text_around_the_capacity_for_small_documents_is_complete(depth: int, size: int) -> None:
    """Nested nodes return the same text; the capacity is 4 MB of text."""
    found = match("//a->a", "<a>" * depth + "z" * size + "</a>" * depth)
    assert [len(one) for (one,) in found.column("a").to_pylist()] == [size] * depth


def test_one_result_larger_than_the_capacity_for_small_documents_is_complete() -> None:
    n = 515
    found = match("/r->r[//a->a[//b->b]]", f"<r>{nested(n)}</r>", "<r><a><b>y</b></a></r>")
    assert [len(nodes) for nodes in found.column("nodes").to_pylist()] == [1 + n + n * n, 3]


def test_output_at_the_limit_is_complete_and_beyond_it_the_document_is_bad() -> None:
    n = largest_within_limit()
    within = match(PATTERN, nested(n))
    assert within.num_rows == n
    assert within.column("error").null_count == n
    (row,) = match(PATTERN, nested(n + 1)).to_pylist()
    assert row["error"]["what"].startswith(TOO_MUCH)
    assert row["error"]["what"].endswith("so return fewer of them")
    assert (row["error"]["line"], row["error"]["column"]) == (1, 1)
    assert row["nodes"] is None


@pytest.mark.parametrize("pattern", [PATTERN, "/r->r[//a->a[//b->b]]", "//a->a[//a->c[//a->d[//b->b]]]"])
def test_only_the_document_beyond_the_limit_is_rejected_in_bounded_memory(pattern: str) -> None:
    bad, good = f"<r>{nested(2000)}</r>", f"<r>{nested(4)}</r>"
    reader = reader_of([pattern])
    expected = len(reader.read(pa.array([good])).rows)
    tracemalloc.start()
    try:
        begun = time.process_time()
        with time_limit():
            found = reader.read(pa.array([good, bad, good]))
        seconds = time.process_time() - begun
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (one,) = found.refused
    assert one.row == 1
    assert one.reason.startswith(TOO_MUCH)
    assert found.document.tolist() == [0] * expected + [2] * expected
    assert seconds < SECONDS / 4
    assert peak < 5 * GROWTH_ALLOWANCE_BYTES


def test_json_document_beyond_the_limit_is_rejected_without_a_position() -> None:
    (row,) = match(PATTERN, nested_json(1500), format="json").to_pylist()
    assert row["error"]["what"].startswith(TOO_MUCH)
    assert row["error"]["line"] is None


def test_document_beyond_the_limit_is_a_bad_record_before_the_shuffle() -> None:
    """Spark queries use this path: the document is counted and listed as a bad record, and the query continues."""
    plan = TreesPlan(compile_texts([PATTERN]), ("found",), ("S",), ("a", "b"))
    prepared = list(prepare(plan, {"body": pa.array([nested(2), nested(1500), nested(3)])}))
    assert [(one.row, one.reason[: len(TOO_MUCH)]) for each in prepared for one in each.bad] == [(1, TOO_MUCH)]
    assert [row for each in prepared for row in each.rows.tolist()] == [0, 0, 2, 2, 2]


def test_match_of_a_pattern_raises_the_limit_with_its_row() -> None:
    pattern = ps.pattern(f"pattern p match S << {PATTERN} >> s return s.b")
    rows = [{"ts": f"2026-01-01T00:00:0{i}Z", "body": nested(n)} for i, n in enumerate((2, 1500))]
    with pytest.raises(DocumentError, match="256 times the bytes of the document plus 64 MB"):
        pattern.match(ps.documents({"S": rows}, body="body"))


def test_capacity_that_a_large_document_needed_is_released() -> None:
    """Otherwise a later document could exceed the output limit."""
    reader = reader_of(["/r->r[//a->a[//b->b]]"])
    large, small = f"<r>{nested(900)}</r>", f"<r>{nested(2)}</r>"
    assert not reader.read(pa.array([large])).refused
    assert len(reader.matcher.rows) <= LARGEST_ROWS * y.ROW_WIDTH
    assert len(reader.read(pa.array([small])).rows) == 7


def test_time_grows_linearly_with_the_number_of_results_decided_together() -> None:
    def seconds(count: int) -> float:
        data = b"<r>" + b"<q/>" * count + b"<last/></r>"
        reader = reader_of(["/r[/last]//q->q"])
        begun = time.process_time()
        assert sum(len(batch.rows) for batch in reader.matcher.read(lambda: [data]) if batch is not None) == count
        return time.process_time() - begun

    base = min(seconds(100_000) for _ in range(3))
    assert seconds(1_600_000) < 60 * base  # quadratic growth would be 256 times


def test_repeated_position_is_a_stall() -> None:
    guard = ProgressGuard()
    assert [guard.is_stalled(1, 2), guard.is_stalled(1, 3), guard.is_stalled(1, 3)] == [False, False, True]


@pytest.mark.parametrize("kernel", ["match_tokens", "end_document"])
@pytest.mark.parametrize("status", [y.NO_CAPACITY, y.ROWS])
def test_kernel_that_never_finishes_is_an_error(monkeypatch: pytest.MonkeyPatch, kernel: str, status: int) -> None:
    reader = reader_of(["//a->x"])
    monkeypatch.setattr(matching, kernel, lambda *_: status)
    with time_limit(), pytest.raises(StalledMatcherError, match="no progress"):
        list(reader.matcher.read(lambda: [b"<a><b/></a>"]))


@pytest.mark.parametrize("status", [y.NO_CAPACITY, y.ROWS, y.NAMES])
def test_documents_of_a_stalled_fast_path_are_read_by_the_general_path(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    reader = reader_of(["//a->x"])

    def unfinished(space: y.Space, *_: object) -> int:
        return status if space.head[y.X_DOCUMENT] < space.head[y.X_DOCUMENTS] else y.READ

    monkeypatch.setattr(matching, "match_documents", unfinished)
    with time_limit():
        found = reader.read(pa.array(["<a/>", "<a><a/></a>"]))
    assert found.document.tolist() == [0, 1, 1]
    assert not found.refused


def test_stalled_document_is_a_bad_document(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(["//a->x"])
    monkeypatch.setattr(matching, "end_document", lambda *_: y.NO_CAPACITY)
    with time_limit():
        found = reader.read(pa.array(["<a/>", "<!-- - -->\n<!DOCTYPE a><a/>", "<a/>"]))
    assert [(one.row, one.reason) for one in found.refused] == [(1, matching.STALLED)]
    assert found.document.tolist() == [0, 2]


NAMES = "abc"


def random_steps(chance: random.Random, most: int) -> str:
    """Write a path of child and descendant steps with predicates, positions, sibling sequences and returned nodes."""
    numbers = iter(range(1000))

    def step(depth: int) -> str:
        axis = chance.choice(["//", "//", "//", "/"])
        name = chance.choice([*NAMES, "a", "a", "*"])
        returned = f"->v{next(numbers)}" if chance.random() < 0.6 else ""
        more = ""
        while depth and chance.random() < 0.5:
            more += f"[{path(depth - 1)}]"
        if depth and chance.random() < 0.2:
            signs = [chance.choice(["", "", "*", "+", "?", "{1,3}"]) for _ in range(3)]
            joins = [chance.choice([":", "::", "|"]) for _ in range(2)]
            parts = [f"/{chance.choice(NAMES)}{sign}" for sign in signs]
            more += f"({parts[0]}{joins[0]}{parts[1]}{joins[1]}{parts[2]})"
        return f"{axis}{name}{returned}{more}"

    def path(depth: int) -> str:
        return "".join(step(depth) for _ in range(chance.randint(1, most)))

    return path(3)


def random_shape(chance: random.Random) -> str:
    """Write a small document: deep, wide, deep and wide, a comb, or sequences of siblings."""
    n = chance.choice([1, 3, 10, 30, 100, 300])
    kind = chance.randrange(5)
    if kind == 0:
        names = [chance.choice(NAMES) for _ in range(n)]
        return "".join(f"<{name}>" for name in names) + "z" + "".join(f"</{name}>" for name in reversed(names))
    if kind == 1:
        return "<a>" + "".join(f"<{name}>z</{name}>" for name in chance.choices(NAMES, k=n)) + "</a>"
    if kind == 2:
        wide = "".join(f"<{name}>z</{name}>" for name in chance.choices(NAMES, k=n))
        return "<a>" * n + wide + "</a>" * n
    if kind == 3:
        return "<a><b>z</b>" * n + "<c/></a>" + "<b/></a>" * (n - 1)
    run = "".join(f"<{name}/>" * chance.randint(1, 9) for name in chance.choices(NAMES, k=n))
    return f"<a>{run}<a>{run}</a></a>"


def texts_by_document(found: Findings) -> list[tuple[int, int, str]]:
    return list(zip(found.document.tolist(), found.rows[:, y.O_LEVEL].tolist(), found.texts.to_pylist(), strict=True))


def check_adversarial(seeds: range) -> tuple[int, int]:
    """Check that every call ends in time with results or the output limit, and that both paths agree; return both counts."""
    read = rejected = 0
    for seed in seeds:
        chance = random.Random(seed)
        pattern = random_steps(chance, chance.choice([1, 2, 3]))
        try:
            reader = reader_of([pattern])
        except (LimitError, ps.errors.UnsupportedError):
            continue
        bodies = [random_shape(chance) for _ in range(3)]
        with time_limit():
            found = reader.read(pa.array(bodies))
        assert all(one.reason.startswith(TOO_MUCH) for one in found.refused), (seed, pattern)
        rejected += len(found.refused)
        read += len(bodies) - len(found.refused)
        if len(found.rows) < 20_000:
            # A document type makes the scanner use expat, so each document takes the general path.
            with time_limit():
                alone = reader.read(pa.array([f"<!DOCTYPE a SYSTEM 'a'>{body}" for body in bodies]))
            assert texts_by_document(alone) == texts_by_document(found), (seed, pattern)
    return read, rejected


def test_adversarial_documents_and_patterns_end_in_time() -> None:
    read, rejected = check_adversarial(range(300))
    assert read > 500
    assert rejected > 0


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
def test_many_adversarial_documents_and_patterns_end_in_time(part: int) -> None:
    read, rejected = check_adversarial(range(1000 + 1000 * part, 2000 + 1000 * part))
    assert read > 1500
    assert rejected > 0
