"""Printed models, queries, rules and repairs parse back to equal definitions."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from perseid.lang import models as m
from perseid.lang.model_printer import WORDS, print_models
from perseid.lang.parser import parse_models, parse_pattern
from perseid.lang.printer import KEYWORDS, print_pattern
from tests.generators.model_strategies import model_files
from tests.generators.random_models import make_model_case
from tests.lang.test_round_trip import spans_point_into, texts_are_plain

LARGE = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
)
TEXT = """\
model social
abstract node Submission (at timestamp, words array<string>)
node Comment is Submission (score decimal(18,2))
node User
edge likes User -> Comment
edge root Comment -> Submission one

query fan(comment, user)
find user -likes-> comment, comment: Comment, not (user -likes-> other where other <> comment)
where comment.score > 1.5 and moving_avg(comment.score, 2 seconds) > 1
or find user -root+-> comment, fan{1,3}(_, user), not user -root*-> user

query q(comment, n)
find comment: Comment
let n = count of fan(comment, _), total = sum(n * 2) of fan(comment, n)
top 3 per comment by n, comment.at ascending

query circle(a, b)
components of fan over q

pattern p
match found q a -> lost q b
within 5 seconds
"""


def test_canonical_text_is_printed_unchanged() -> None:
    file = parse_models(TEXT)
    assert print_models(file) == TEXT
    spans_point_into(TEXT, (file.metamodel, *file.queries))
    texts_are_plain(file)


def test_equivalent_notations_are_printed_in_one_form() -> None:
    text = "query q(a, b) find a: A <-e- b: B -f{2,2}-> a, not (a -e{1}-> b) top 2 by a.x descending"
    assert print_models(parse_models(text)) == (
        "query q(a, b)\n"
        "find a: A, b -e-> a, b: B, b -f{2}-> a, not a -e-> b\n"
        "top 2 by a.x\n"
    )  # fmt: skip


@LARGE
@given(model_files())
def test_a_printed_text_reads_back_as_itself(file: m.ModelFile) -> None:
    text = print_models(file)
    again = parse_models(text)
    assert again == file
    assert print_models(again) == text
    texts_are_plain(again)


@pytest.mark.parametrize("block", range(4))
def test_queries_of_random_models_parse_back(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        case = make_model_case(seed)
        file = m.ModelFile(case.metamodel, case.queries)
        assert parse_models(print_models(file)) == file


@pytest.mark.parametrize("word", sorted(KEYWORDS | WORDS))
def test_any_keyword_can_be_a_quoted_name(word: str) -> None:
    text = TEXT.replace("social", "X").replace("fan", "X").replace("user", "X").replace("likes", "X")
    file = parse_models(text.replace("comment", "Y").replace("score", "X").replace("X", f"`{word}`"))
    assert parse_models(print_models(file)) == file


def test_model_keywords_are_unquoted_in_a_file_without_models() -> None:
    """Match ids depend on the printed pattern, so its text must not change."""
    text = "pattern query\nmatch A model\nwhere model.find = 1\nwithin 5 seconds\n"
    assert print_pattern(parse_pattern(text)) == text
    file = m.ModelFile(None, (), (parse_pattern(text),))
    assert print_models(file).startswith("pattern `query`\nmatch A `model`\nwhere `model`.`find` = 1")
    assert parse_models(print_models(file)) == file


RULES = """
model cps
node Host (cpu bigint, label string)
edge near Host -> Host

query busy(host) find host: Host where host.cpu > 3
pattern twice match found busy a -> found busy b within 1 minute partition by host

rule tidy on found busy(host) priority 5
do set host.cpu = host.cpu - 1, emit tidied(host, 'it''s, full' as why)
rule copy on lost busy(h)
do create c: Host named 'copy-' || h, link h -near-> c, let `do`: Host named 'x', unlink h -near-> `do`, delete h
for model 'south', 1 + 2 do delete h, emit gone(h.cpu as `named`)
rule `rule` on twice do emit again(host)

repair lower on busy(host) cost 2.50 do set host.cpu = 3, set host.label = null
repair drop on busy(`cost`) do delete `cost`
"""


def test_printed_rules_and_repairs_parse_back() -> None:
    file = parse_models(RULES)
    printed = print_models(file)
    assert parse_models(printed) == file
    assert print_models(parse_models(printed)) == printed
    for line in ("rule tidy on found busy(host)", "priority 5", "cost 2.50", "for model 'south', 1 + 2 do delete h"):
        assert line in printed
