"""Random patterns and streams for the part of the language that SQL:2016 row patterns share.

One seed determines everything: ``sample(7)`` is the same pattern with the same streams on every machine, so a
failure can be repeated by its seed. Half of the events in a stream are noise and half are walks through the pattern,
so that some streams match.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from sql import Query, Row, UntranslatableError, translate

from perseid.errors import PatternError
from perseid.lang import ast
from perseid.lang import expressions as ex

NAMES = "abcd"
TYPES = "ABC"
STREAMS = 20
MAX_ROWS = 10
SECOND = 1_000_000

_QUANTIFIERS: tuple[tuple[int, int | None], ...] = (
    (0, 1), (0, None), (1, None), (2, 2), (2, None), (0, 2), (1, 2), (2, 3), (0, 3), (1, 3),
)  # fmt: skip
_COMPARE = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Sample:
    """A random pattern and its input streams."""

    seed: int
    pattern: ast.PatternDefinition
    query: Query
    streams: tuple[tuple[Row, ...], ...]


def sample(seed: int, streams: int = STREAMS) -> Sample:
    rng = random.Random(f"perseid-trino-{seed}")
    pattern, query = _accepted_pattern(rng)
    return Sample(seed, pattern, query, tuple(_stream(rng, i, pattern.match) for i in range(streams)))


# patterns


def _accepted_pattern(rng: random.Random) -> tuple[ast.PatternDefinition, Query]:
    while True:
        pattern = _unrefined_pattern(rng)
        query = _translated(pattern)
        if query is None:
            continue
        # Skip refinements that make the pattern invalid or untranslatable.
        for refine in rng.choices(_REFINEMENTS, weights=_WEIGHTS, k=rng.randint(2, 10)):
            candidate = refine(rng, pattern)
            refined = _translated(candidate)
            if refined is not None:
                pattern, query = candidate, refined
        return pattern, query


def _translated(pattern: ast.PatternDefinition) -> Query | None:
    try:
        return translate(pattern)
    except (PatternError, UntranslatableError):
        return None


def _unrefined_pattern(rng: random.Random) -> ast.PatternDefinition:
    names = iter(NAMES)
    count = rng.randint(2, 4)
    partition = (ex.Ref(("k",)),) if rng.random() < 0.7 else ()
    if rng.random() < 0.25:
        selection = rng.choice((ast.Selection.SQL, ast.Selection.STRICT))
        element = _element(rng, count, names, ast.Contiguity.SKIP, depth=0)
        return ast.PatternDefinition("p", element, partition_by=partition, selection=selection)
    element = _sequence(rng, count, names, ast.Contiguity.NEXT, depth=0)
    return ast.PatternDefinition("p", element, partition_by=partition, skip=_skip(rng, count))


def _skip(rng: random.Random, steps: int) -> ast.Skip | None:
    mode = rng.choice((None, "none", "to next", "past last", "past last", "to first", "to last"))
    if mode is None:
        return None
    return ast.Skip(mode, rng.choice(NAMES[:steps]) if mode in ("to first", "to last") else None)


def _element(rng: random.Random, count: int, names, arrow: ast.Contiguity, depth: int) -> ast.Element:
    if count == 1:
        kind = ast.AnyEvent() if rng.random() < 0.15 else ast.EventType(rng.choice(TYPES))
        element: ast.Element = ast.Step(kind, next(names))
    else:
        make = rng.choices((_sequence, _alternation, _conjunction), weights=(3, 2, 2))[0]
        element = make(rng, count, names, arrow, depth + 1)
    if depth <= 3 and rng.random() < (0.45 if count == 1 else 0.35):
        low, high = rng.choice(_QUANTIFIERS)
        element = ast.Repeat(element, low, high, reluctant=rng.random() < 0.35)
        if count == 1 and rng.random() < 0.1:
            low, high = rng.choice(_QUANTIFIERS)
            element = ast.Repeat(element, low, high, reluctant=rng.random() < 0.35)
    return element


def _parts(rng: random.Random, count: int, names, arrow, depth: int) -> tuple[ast.Element, ...]:
    sizes = []
    while count:
        size = rng.randint(1, count if sizes else count - 1)
        sizes.append(size)
        count -= size
    return tuple(_element(rng, size, names, arrow, depth) for size in sizes)


def _sequence(rng: random.Random, count: int, names, arrow, depth: int) -> ast.Element:
    parts = _parts(rng, count, names, arrow, depth)
    return ast.Sequence(parts, tuple(ast.Link(arrow) for _ in parts[1:]))


def _alternation(rng: random.Random, count: int, names, arrow, depth: int) -> ast.Element:
    return ast.Alternation(_parts(rng, count, names, arrow, depth))


def _conjunction(rng: random.Random, count: int, names, arrow, depth: int) -> ast.Element:
    return ast.Conjunction(_parts(rng, count, names, arrow, depth))


# conditions

Refinement = Callable[[random.Random, ast.PatternDefinition], ast.PatternDefinition]


def _steps(pattern: ast.PatternDefinition) -> list[ast.Step]:
    return list(ast.steps(pattern.match))


def _with_step(element: ast.Element, name: str, change: Callable[[ast.Step], ast.Step]) -> ast.Element:
    def down(e: ast.Element) -> ast.Element:
        return _with_step(e, name, change)

    match element:
        case ast.Step():
            return change(element) if element.name == name else element
        case ast.Sequence():
            return replace(element, elements=tuple(map(down, element.elements)))
        case ast.Alternation():
            return replace(element, branches=tuple(map(down, element.branches)))
        case ast.Conjunction():
            return replace(element, members=tuple(map(down, element.members)))
        case ast.Repeat() | ast.Group():
            return replace(element, element=down(element.element))
    raise AssertionError(f"no {type(element).__name__} is generated")


def _number(n: int) -> ex.Expr:
    return ex.Literal("integer", n)


def _and(left: ex.Expr | None, right: ex.Expr) -> ex.Expr:
    return right if left is None else ex.Binary("and", left, right)


def _value(name: str | None) -> ex.Ref:
    return ex.Ref(("v",)) if name is None else ex.Ref((name, "v"))


def _aggregate(rng: random.Random, name: str) -> ex.Expr:
    function = rng.choice(("count", "count", "sum", "sum", "avg", "min", "max", "first", "last", "prev"))
    if function == "count" and rng.random() < 0.5:
        return ex.Call("count", (ex.Ref((name,)),))
    if function == "prev" and rng.random() < 0.3:
        return ex.Call("prev", (_value(name), _number(2)))
    return ex.Call(function, (_value(name),))


def _term(rng: random.Random, names: list[str]) -> ex.Expr:
    roll = rng.random()
    if roll < 0.25:
        return _number(rng.randint(0, 4))
    if roll < 0.6:
        return _value(rng.choice(names))
    if roll < 0.9:
        return _aggregate(rng, rng.choice(names))
    return ex.Binary(rng.choice(("+", "-", "*")), _value(rng.choice(names)), _number(rng.randint(0, 2)))


def _step_condition(rng: random.Random, own: str, names: list[str]) -> ex.Expr:
    roll = rng.random()
    mine = _value(None if rng.random() < 0.6 else own)
    if roll < 0.25:
        return ex.Binary(rng.choice(_COMPARE), mine, _number(rng.randint(0, 3)))
    if roll < 0.65:
        return ex.Binary(rng.choice(_COMPARE), mine, _term(rng, names))
    if roll < 0.75:
        return ex.Binary(rng.choice(_COMPARE), _aggregate(rng, own), _number(rng.randint(0, 5)))
    if roll < 0.8:
        inner = ex.Binary(rng.choice(_COMPARE), _value(own), _number(rng.randint(0, 3)))
        return ex.Call(rng.choice(("any", "every")), (inner,))
    if roll < 0.84:
        return ex.Is(_value(rng.choice(names)), "null", negated=rng.random() < 0.5)
    if roll < 0.88:
        return ex.Binary("<=>", mine, _value(rng.choice(names)))
    if roll < 0.91:
        items = tuple(_number(n) for n in rng.sample(range(4), 2))
        return ex.InList(mine, items, negated=rng.random() < 0.3)
    if roll < 0.94:
        return ex.Between(mine, _number(rng.randint(0, 1)), _term(rng, names), negated=rng.random() < 0.3)
    left, right = (_step_condition(rng, own, names) for _ in range(2))
    return ex.Unary("not", left) if rng.random() < 0.3 else ex.Binary("or", left, right)


def _add_condition(rng: random.Random, pattern: ast.PatternDefinition) -> ast.PatternDefinition:
    names = [s.name for s in _steps(pattern) if s.name]
    own = rng.choice(names)
    condition = _step_condition(rng, own, names)
    tests = rng.random() < 0.15

    def change(step: ast.Step) -> ast.Step:
        return (
            replace(step, must=_and(step.must, condition))
            if tests
            else replace(step, condition=_and(step.condition, condition))
        )

    return replace(pattern, match=_with_step(pattern.match, own, change))


def _add_where(rng: random.Random, pattern: ast.PatternDefinition) -> ast.PatternDefinition:
    names = [s.name for s in _steps(pattern) if s.name]
    left = _value(rng.choice(names)) if rng.random() < 0.5 else _aggregate(rng, rng.choice(names))
    return replace(pattern, where=_and(pattern.where, ex.Binary(rng.choice(_COMPARE), left, _term(rng, names))))


def _add_unification(rng: random.Random, pattern: ast.PatternDefinition) -> ast.PatternDefinition:
    names = [s.name for s in _steps(pattern) if s.name]
    match = pattern.match
    unify = (ast.Unify(ex.Ref(("v",)), "x"),)
    for name in rng.sample(names, rng.randint(2, len(names))):
        match = _with_step(match, name, lambda step: replace(step, unify=unify))
    return replace(pattern, match=match)


def _add_window(rng: random.Random, pattern: ast.PatternDefinition) -> ast.PatternDefinition:
    size = rng.randint(1, 6)
    window = ast.TimeWindow(size * SECOND) if rng.random() < 0.6 else ast.CountWindow(size)
    return replace(pattern, within=window)


def _add_gap(rng: random.Random, pattern: ast.PatternDefinition) -> ast.PatternDefinition:
    if not isinstance(pattern.match, ast.Sequence):
        return pattern
    links = list(pattern.match.links)
    i = rng.randrange(len(links))
    bound = rng.randint(1, 2) * SECOND
    links[i] = replace(links[i], **{rng.choice(("after", "within")): bound})
    return replace(pattern, match=replace(pattern.match, links=tuple(links)))


_REFINEMENTS: tuple[Refinement, ...] = (_add_condition, _add_where, _add_unification, _add_window, _add_gap)
_WEIGHTS = (12, 4, 1, 2, 1)


# streams


def _stream(rng: random.Random, number: int, match: ast.Element) -> tuple[Row, ...]:
    wanted = rng.randint(0, MAX_ROWS)
    keys: list[int | None] = rng.sample([1, 2, None], rng.randint(1, 2))
    types: list[tuple[str, int | None]] = []
    while len(types) < wanted:
        if rng.random() < 0.5:
            types.append((rng.choice("AABBCCX"), rng.choice(keys)))
        else:
            key = rng.choice(keys)
            types.extend((kind, key) for kind in _walk(rng, match))
    time = 0
    rows: list[Row] = []
    for seq, (kind, key) in enumerate(types[:wanted]):
        time += rng.choice((0, 1, 1, 1, 2))
        value = None if rng.random() < 0.07 else rng.randint(0, 3)
        rows.append((number, key, time, seq, kind, value))
    rng.shuffle(rows)
    return tuple(rows)


def _walk(rng: random.Random, element: ast.Element) -> list[str]:
    """Return the event types of a random match of the element."""
    match element:
        case ast.Step():
            return [element.kind.name if isinstance(element.kind, ast.EventType) else rng.choice(TYPES)]
        case ast.Sequence():
            return [kind for part in element.elements for kind in _walk(rng, part)]
        case ast.Alternation():
            return _walk(rng, rng.choice(element.branches))
        case ast.Conjunction():
            members = rng.sample(element.members, len(element.members))
            return [kind for member in members for kind in _walk(rng, member)]
        case ast.Repeat():
            high = element.low + 2 if element.high is None else element.high
            return [kind for _ in range(rng.randint(element.low, high)) for kind in _walk(rng, element.element)]
    raise AssertionError(f"no {type(element).__name__} is generated")
