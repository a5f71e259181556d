"""Old names work throughout 0.1, each warns once and names its replacement; the changelog lists them."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest

import perseid as ps
from perseid.deprecated import MOVED_METHODS, MOVED_NAMES, OPTION_NAMES, RENAMED_PARAMETERS, SAMPLING_NAMES

CHANGELOG = (Path(__file__).parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
EVENTS = [{"ts": "2026-01-01", "type": "A"}, {"ts": "2026-01-02", "type": "B"}]
PATTERN = ps.pattern("pattern p match A a -> B b within 2 days")
PLACES = [{"ts": "2026-01-01", "who": "ann", "place": "hall", "p": 0.5}]
ROOMS = ps.pattern("pattern rooms match At a [place = 'hall'] -> At b within 2 days")
METAMODEL = ps.graph.metamodel("model m node Node (name string) query named(n) find n: Node")
CHANGES = [{"ts": "2026-01-01", "change": "create", "element": "n", "kind": "Node"}]


def test_top_level_has_at_most_25_names_and_no_internal_module() -> None:
    names = [name for name in dir(ps) if not name.startswith("__")]
    assert len(names) <= 25
    assert not {"api", "engines", "lang", "runtime", "semantics", "spark", "tables", "viz"} & set(names)


@pytest.mark.parametrize("old", sorted(MOVED_NAMES))
def test_old_name_warns_once_and_is_the_new_object(old: str) -> None:
    new = reduce(getattr, MOVED_NAMES[old].split("."), ps)
    with pytest.warns(DeprecationWarning, match=f"perseid.{old} is deprecated") as caught:
        assert getattr(ps, old) is new
    assert [str(one.message) for one in caught] == [
        f"perseid.{old} is deprecated and will be removed in 0.2. Use perseid.{MOVED_NAMES[old]}."
    ]
    assert caught[0].filename == __file__


def test_new_names_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for new in MOVED_NAMES.values():
            reduce(getattr, new.split("."), ps)


@pytest.mark.parametrize("old", sorted({*MOVED_NAMES, *MOVED_METHODS, *OPTION_NAMES, *SAMPLING_NAMES}))
def test_changelog_lists_the_old_name(old: str) -> None:
    assert re.search(rf"^\| [^|]*`[^|`]*\b{old}\b[^|]* \|", CHANGELOG, re.MULTILINE)


@pytest.mark.parametrize(
    ("function", "old"), [(name, old) for name, renamed in RENAMED_PARAMETERS.items() for old in renamed]
)
def test_changelog_lists_the_old_parameter(function: str, old: str) -> None:
    new = RENAMED_PARAMETERS[function][old]
    assert f"| `{function}({old}=…)` | `{function}({new}=…)` |" in CHANGELOG


def test_new_parameters_exist() -> None:
    functions = {
        "uncertain_events": [ps.uncertain_events],
        "match": [ps.Pattern.match, ps.xscl.SubscriptionSet.match, ps.xscl.SubscriptionTable.match],
        "model": [ps.graph.model],
        "react": [ps.graph.react],
        "find_repairs": [ps.graph.find_repairs],
        "learn": [ps.uncertain.learn],
    }
    assert functions.keys() == RENAMED_PARAMETERS.keys()
    for name, renamed in RENAMED_PARAMETERS.items():
        parameters = {one for function in functions[name] for one in inspect.signature(function).parameters}
        assert set(renamed.values()) <= parameters
        assert not set(renamed) & parameters
    for function in (ps.events, ps.documents, ps.uncertain_events, ps.graph.model, ps.graph.frames):
        parameters = set(inspect.signature(function).parameters)
        assert "options" in parameters
        assert not {*OPTION_NAMES, *SAMPLING_NAMES} & parameters
        assert len(parameters) < 20


OLD_CALLS: dict[str, tuple[Callable[[], object], Callable[[], object], list[str]]] = {
    "detect": (lambda: PATTERN.detect(EVENTS), lambda: PATTERN.match(EVENTS), ["detect is", "match"]),
    "options": (
        lambda: ps.events(EVENTS, shards=4, max_steps=500, idle="1 minute"),
        lambda: ps.events(EVENTS, options=ps.StreamOptions(shards=4, max_steps=500, idle="1 minute")),
        ["shards= of events", "options=ps.StreamOptions"],
    ),
    "max_state and max_matches": (
        lambda: ps.documents([], body="xml", max_state=1 << 20, max_matches=7),
        lambda: ps.documents([], body="xml", options=ps.StreamOptions(max_state=1 << 20, max_matches=7)),
        ["max_state= of documents", "options=ps.StreamOptions"],
    ),
    "uncertain": (
        lambda: ps.uncertain_events(PLACES, event="At", of="who", about="place", p="p", correlations=False),
        lambda: ps.uncertain_events(
            PLACES, event_type="At", key="who", value="place", probability="p", correlated=False
        ),
        ["about= of uncertain_events", "value="],
    ),
    "previous": (
        lambda: ps.uncertain_events(PLACES, event_type="At", value="place", given="who"),
        lambda: ps.uncertain_events(PLACES, event_type="At", value="place", previous="who"),
        ["given= of uncertain_events", "previous="],
    ),
    "sampling": (
        lambda: ps.uncertain_events(PLACES, event_type="At", value="place", epsilon=0.2, delta=0.3, seed=1, method="sample"),
        lambda: ps.uncertain_events(
            PLACES, event_type="At", value="place", sampling=ps.uncertain.Sampling(0.2, 0.3, 1, always=True)
        ),
        ["epsilon= of uncertain_events", "sampling=ps.uncertain.Sampling"],
    ),
    "emit": (
        lambda: ROOMS.match(_places(), tell=ps.uncertain.above(0.1)),
        lambda: ROOMS.match(_places(), emit=ps.uncertain.above(0.1)),
        ["tell= of match", "emit="],
    ),
    "model": (
        lambda: ps.graph.model(CHANGES, METAMODEL, beside=ps.events(EVENTS)),
        lambda: ps.graph.model(CHANGES, METAMODEL, events=ps.events(EVENTS)),
        ["beside= of model", "events="],
    ),
    "rejected changes of a model": (lambda: _model().refused(), lambda: _model().rejected(), ["refused", "rejected"]),
    "rejected changes of a reaction": (
        lambda: ps.graph.react(_model()).refused,
        lambda: ps.graph.react(_model()).rejected,
        ["refused", "rejected"],
    ),
    "current matches of a reaction": (
        lambda: ps.graph.react(_model()).standing,
        lambda: ps.graph.react(_model()).current,
        ["standing", "current"],
    ),
    "punctuation": (
        lambda: ps.disorder.Conservative(promise="mark"),
        lambda: ps.disorder.Conservative(punctuation="mark"),
        ["promise=", "punctuation="],
    ),
    "combine": (lambda: _places().beside(ps.events(EVENTS)), lambda: _places().combine(ps.events(EVENTS)), ["beside", "combine"]),
}  # fmt: skip


def _model() -> ps.graph.Models:
    return ps.graph.model([*CHANGES, {**CHANGES[0], "change": "delete", "element": "m"}], METAMODEL)


def _places() -> ps.uncertain.UncertainEvents:
    return ps.uncertain_events(PLACES, event_type="At", key="who", value="place", every="1 day")


@pytest.mark.parametrize("name", OLD_CALLS)
def test_old_call_warns_and_has_the_same_result(name: str) -> None:
    old, new, expected = OLD_CALLS[name]
    with pytest.warns(DeprecationWarning, match="is deprecated and will be removed in 0.2") as caught:
        result = old()
    messages = [str(one.message) for one in caught]
    assert len(messages) == len(set(messages)), "each name warns once"
    assert any(all(part in message for part in expected) for message in messages), messages
    assert {one.filename for one in caught} == {__file__}
    assert _comparable(result) == _comparable(new())


def _comparable(result: object) -> object:
    return result.to_dicts() if hasattr(result, "to_dicts") else result


def test_old_and_new_name_together_are_an_error() -> None:
    with (
        pytest.warns(DeprecationWarning, match="is deprecated"),
        pytest.raises(ps.PerseidError, match="shards= and options= are given"),
    ):
        ps.events(EVENTS, shards=4, options=ps.StreamOptions())
    with (
        pytest.warns(DeprecationWarning, match="is deprecated"),
        pytest.raises(ps.PerseidError, match="of= and key= are given"),
    ):
        ps.uncertain_events(PLACES, event_type="At", of="who", key="who", value="place")
