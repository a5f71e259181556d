"""Error messages of common mistakes in model definitions, as golden files: the input above the line, the message below it.

A text that begins with three dots is appended to a small model with one query. Run with PERSEID_REWRITE_GOLDEN=1 to
rewrite the messages; then review every changed one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.errors import LimitError, PatternError, PerseidError
from perseid.lang.parser import parse_models
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import check_queries

LINE = "\n----\n"
FILES = sorted((Path(__file__).parent / "model_errors").glob("*.txt"))
MODEL = """\
model social
node User (name string, age bigint)
node Comment (at timestamp)
edge likes User -> Comment
edge knows User -> User

query fan(comment, user)
find user -likes-> comment

"""


def read(file: Path) -> tuple[str, str]:
    text, _, message = file.read_text(encoding="utf-8").partition(LINE)
    return text.replace("...\n", MODEL, 1) if text.startswith("...\n") else text, message


def provoke(text: str) -> PatternError:
    try:
        file = parse_models(text)
        assert file.metamodel is not None
        check_queries(kinds_of(file.metamodel), file.queries)
    except PatternError as error:
        located = error.locate(text)
        assert isinstance(located, PatternError)
        return located
    pytest.fail("nothing was refused")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_message(file: Path) -> None:
    text, wanted = read(file)
    error = provoke(text)
    found = f"{type(error).__name__}\n{error}\n"
    if os.environ.get("PERSEID_REWRITE_GOLDEN") == "1":
        above = file.read_text(encoding="utf-8").partition(LINE)[0]
        file.write_text(f"{above}{LINE}{found}", encoding="utf-8")
        return
    assert found == wanted


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_error_has_a_position_and_a_hint(file: Path) -> None:
    text, _ = read(file)
    error = provoke(text)
    assert error.hint or error.nearest
    assert error.line is not None
    assert error.column is not None
    rows = text.split("\n")
    assert 1 <= error.line <= len(rows)
    assert 1 <= error.column <= len(rows[error.line - 1]) + 1
    assert "^" in str(error)


def test_at_least_80_mistakes_are_covered() -> None:
    assert len(FILES) >= 80


# malformed and oversized texts

HOSTILE = {
    "absence in absence": "query q(a) find a: User, " + "not (a: User, " * 3_000,
    "absence, closed": "query q(a) find a: User, " + "not (a: User, " * 55 + "a: User" + ")" * 55,
    "a long run of not": "query q(a) find " + "not " * 5_000 + "a: User",
    "a long chain": "query q(a) find a" + " -knows-> a" * 3_000,
    "many constraints": "query q(a) find " + ", ".join(["a: User"] * 2_000),
    "many ways": "query q(a) find a: User" + " or find a: User" * 1_500,
    "many parameters": f"query q({', '.join(f'a{i}' for i in range(4_000))}) find a0: User",
    "a deep condition": "query q(a) find a: User where " + "(" * 500 + "a.age" + ")" * 500,
    "a chain of or": "query q(a) find a: User where " + " or ".join(["a.age = 1"] * 1_000),
    "queries that call the next": "".join(f"query q{i}(a) find q{i + 1}(a) " for i in range(900)) + "query q900(a) find a: User",
    "queries that call the one before": "query r0(a) find a: User " + "".join(f"query r{i + 1}(a) find r{i}(a) " for i in range(900)),
    "a ring of queries": "".join(f"query q{i}(a) find q{(i + 1) % 100}(a) " for i in range(100)),
    "a walk without end": "query q(a) find a -knows{1,999999999999999999999}-> b",
    "a top without end": "query q(a) find a: User top 99999999999999999999 by a.age",
    "a window without end": "query q(a) find a: User where moving_avg(a.age, 999999999) > 1",
    "a long name": f"query {'q' * 100_000}(a) find a: User",
    "an open text": "query q(a) find a: User where a.name = '" + "x" * 100_000,
    "dashes": "query q(a) find a " + "-" * 50_000,
    "braces": "query q(a) find a -knows" + "{" * 50_000,
    "half a character": "query q(a) find a: \ud800",
    "very long": "query q(a) find a: User " * 60_000,
}  # fmt: skip
METAMODELS = {
    "types below one another": "model m " + "".join(f"node A{i} is A{i + 1} " for i in range(2_000)) + "node A2000",
    "diamonds": "model m node A0 node B0 " + "".join(f"node A{i + 1} is A{i}, B{i} node B{i + 1} is A{i}, B{i} " for i in range(60)),
    "a ring of types": "model m " + "".join(f"node A{i} is A{(i + 1) % 100} " for i in range(100)),
    "deep attributes": "model m node A (x " + "array<" * 5_000 + "bigint" + ">" * 5_000 + ")",
}  # fmt: skip
FINE = {
    "absence, closed",
    "many constraints",
    "many ways",
    "queries that call the one before",
    "diamonds",
}


@pytest.mark.parametrize("name", [*HOSTILE, *METAMODELS])
@pytest.mark.timeout(60)
def test_adversarial_model_texts_are_parsed_or_rejected_in_bounded_time(name: str) -> None:
    text = MODEL + HOSTILE[name] if name in HOSTILE else METAMODELS[name]
    if name in FINE:
        file = parse_models(text)
        assert file.metamodel is not None
        check_queries(kinds_of(file.metamodel), file.queries)
    else:
        assert str(provoke(text))


@given(st.data())
def test_a_mangled_text_is_read_or_refused(data: st.DataObject) -> None:
    """Pieces of a text taken out, doubled or put elsewhere."""
    words = data.draw(st.sampled_from([MODEL, *(read(file)[0] for file in FILES)])).split(" ")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words) - 1))
        piece = data.draw(
            st.sampled_from([*words, "(", "->", "-", "{", ":", "find", "let", "of", "'", "`", "é", "3", "\n"])
        )
        words[at : at + data.draw(st.integers(0, 2))] = [piece]
    assert outcome(" ".join(words))


def outcome(text: str) -> str:
    try:
        file = parse_models(text)
        if file.metamodel is not None:
            check_queries(kinds_of(file.metamodel), file.queries)
    except PerseidError as error:
        return str(error)
    return "read"


def test_token_limit_applies_to_each_query() -> None:
    """Six queries below the token limit are accepted, although together they exceed it; one query above it is rejected."""
    many = "model m node A (n bigint)\n" + "".join(
        f"query q{i}(a) find a: A where a.n in ({', '.join(map(str, range(2_000)))})\n" for i in range(6)
    )
    assert len(parse_models(many).queries) == 6
    with pytest.raises(LimitError, match="A pattern, query or rule has more than 10,000 tokens"):
        parse_models(
            f"model m node A (n bigint) query q(a) find a: A where a.n in ({', '.join(map(str, range(6_000)))})"
        )
