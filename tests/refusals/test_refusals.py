"""Every case is rejected with its error and reason, and docs/refusals.md lists all cases."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perseid as ps
from tests.refusals.case import Case
from tests.refusals.fixtures import names, spark_names
from tests.refusals.page import CASES, ENGINES, PAGE, page, raise_sites, site_of
from tests.sessions import session

UNREACHED: Counter[str] = Counter(
    {
        "perseid/jobs/stream_kinds/contract: rows_by_source": 1,  # perseid try of a job with several sources
        "perseid/engines/models/rule_engine: _emitted_types": 1,
        "perseid/engines/sequence/pattern_dag: _reject_unsupported": 1,  # UnknownNameError comes first
        "perseid/engines/uncertain/film: _chances": 1,
        "perseid/engines/uncertain/film: _drawn": 1,
        "perseid/engines/uncertain/labelled: labelled_steps": 1,
        "perseid/engines/uncertain/plan: refuse_apart": 1,
        "perseid/engines/uncertain/plan: refuse_on_streams": 2,
        "perseid/engines/uncertain/safe: safely": 1,  # classification excludes such plans
        "perseid/semantics/events: is_of_kind": 1,  # only the oracle raises it
        "perseid/semantics/writing: result_of": 1,  # results of millions of characters
        "perseid/spark/changes: _merge": 1,  # needs a table
        "perseid/spark/stream: run_stream": 1,  # needs an engine from a plugin
        "perseid/spark/stream: refuse_old": 1,  # other Spark versions
    }
)
"""Raise sites that no case reaches, by module and function."""


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with session(tmp_path_factory.mktemp("warehouse")) as spark:
        yield spark_names(spark)


def rejected(case: Case, scope: dict[str, Any]) -> BaseException:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ps.PerseidError) as found:
            eval(case.code, dict(scope))
    return found.value


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.spark])
def test_combination_is_rejected_with_its_reason(name: str) -> None:
    _check(CASES[name], names())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.spark])
def test_combination_on_spark_is_rejected_with_its_reason(name: str, scope: dict[str, Any]) -> None:
    _check(CASES[name], scope)


def _check(case: Case, scope: dict[str, Any]) -> None:
    error = rejected(case, scope)
    assert type(error).__name__ == case.error, error
    assert case.reason in str(error)
    if case.error == "UnsupportedError":
        assert getattr(error, "hint", None), "the error has no hint"


def test_every_engine_has_cases() -> None:
    assert all(module.CASES for module in ENGINES)


def test_page_is_current_and_raise_sites_without_a_case_are_listed(scope: dict[str, Any]) -> None:
    sites = raise_sites()
    reached = {site_of(rejected(case, scope).__traceback__, sites) for case in CASES.values()}
    left = [site for site in sites if site not in reached]
    text = page()
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        PAGE.write_text(text, encoding="utf-8")
    assert Counter(f"{Path(file).with_suffix('').as_posix()}: {sites[file, a, b]}" for file, a, b in left) == UNREACHED
    assert PAGE.read_text(encoding="utf-8") == text
