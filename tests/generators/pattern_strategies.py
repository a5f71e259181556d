"""Random patterns for property tests, every node and field of the tree among them; needs hypothesis.

What comes out is in the form the parser gives: ``parse(print(p)) == p``. Most of it reads well and means
nothing, which is the checker's business and not the parser's.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache

from hypothesis import strategies as st

from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.printer import KEYWORDS, print_name
from tests.generators.expression_strategies import expressions, literals
from tests.generators.tree_strategies import tree_patterns

_MOST = limits.MAX_DURATION
_ODD_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
_ODD_NAMES = [
    "`",
    "a`b",
    "``",
    "a b",
    "it's",
    "é",
    "名前",
    "1st",
    "-- x",
    "/*",
    ">>",
    "a.b",
    ":p",
    "\n",
    "\0",
    "x" * 200,
]
_TYPE_WORDS = (
    "bigint",
    "double",
    "decimal",
    "string",
    "timestamp",
    "date",
    "array",
    "map",
    "of",
    "my type",
    "a`b",
)


_PLAIN_NAMES = ["a", "b", "t", "Login", "Transfer", "user", "_x", "e1", "timestamp", "Date"]
_WORDS = sorted({spelling for word in KEYWORDS for spelling in (word, word.upper(), word.title())})


def names() -> st.SearchStrategy[str]:
    """Plain names mostly; words of the language and odd characters too."""
    known = [*(_PLAIN_NAMES * 40), *_WORDS, *(_ODD_NAMES * 8)]
    return st.one_of(st.sampled_from(known), st.sampled_from(known), _ODD_TEXT)


def _parameter_names() -> st.SearchStrategy[str]:
    # A name after a colon is never quoted, and keywords are allowed as names there.
    return st.one_of(st.sampled_from(["p", "q", "_1", "limit"]), st.sampled_from(sorted(KEYWORDS)))


def durations() -> st.SearchStrategy[ast.Duration]:
    """Whole numbers of any unit, and parameters."""
    units = st.sampled_from([1, 1_000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 604_800_000_000])
    return st.one_of(
        st.builds(lambda count, unit: count * unit, st.integers(0, 100), units),
        st.integers(0, _MOST),
        st.just(_MOST),
        _parameter_names().map(ex.Param),
    )


def windows() -> st.SearchStrategy[ast.Window]:
    counts = st.one_of(st.integers(1, 10), st.integers(1, limits.MAX_INTEGER))
    return st.one_of(durations().map(ast.TimeWindow), counts.map(ast.CountWindow), st.just(ast.Forever()))


def paths() -> st.SearchStrategy[ex.Ref]:
    return st.lists(names(), min_size=1, max_size=3).map(lambda parts: ex.Ref(tuple(parts)))


def type_names() -> st.SearchStrategy[str]:
    """Types in the parser's canonical spelling; few of them exist."""
    words = st.sampled_from(_TYPE_WORDS).map(print_name)
    sizes = st.lists(st.integers(0, 1000), min_size=1, max_size=2)
    sized = st.builds(lambda word, found: f"{word}({','.join(map(str, found))})", words, sizes)

    def larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        fields = st.builds(lambda name, inner: f"{print_name(name)}:{inner}", names(), smaller)
        arguments = st.lists(st.one_of(smaller, fields), min_size=1, max_size=2)
        return st.one_of(
            st.builds(lambda word, inner: f"{word} of {inner}", words, smaller),
            st.builds(lambda word, inner: f"{word}<{','.join(inner)}>", words, arguments),
        )

    return st.recursive(st.one_of(words, sized), larger, max_leaves=4)


def _negative(literal: ex.Literal) -> ex.Literal:
    value = literal.value
    if isinstance(value, Decimal):
        return ex.Literal(literal.kind, value.copy_negate())
    if isinstance(value, int | float) and literal.kind in ("integer", "double", "duration"):
        return ex.Literal(literal.kind, -value)
    return literal


def constants() -> st.SearchStrategy[ex.Literal]:
    """Defaults of parameters: literals, numbers with a sign among them."""
    # As many digits as are allowed: arithmetic would round them.
    digits = st.lists(st.integers(0, 9), min_size=37, max_size=37).map(lambda found: (1, *found))
    long = st.builds(lambda found, scale: Decimal((0, found, -scale)), digits, st.integers(1, 37))
    every = st.one_of(literals(), long.map(lambda value: ex.Literal("decimal", value)))
    return st.one_of(every, every.map(_negative))


def _conditions() -> st.SearchStrategy[ex.Expr]:
    """Any expression, over plain names and over words of the language and odd ones."""
    odd = [
        ("within",),
        ("evidence",),
        ("a", "case"),
        ("`",),
        ("end", "of"),
        ("first", "not", "day"),
        ("it's",),
    ]
    odd += [("date",), ("TIMESTAMP",), ("true",), ("distinct", "x"), ("every",), ("min",), ("5",)]
    return st.one_of(
        expressions(max_leaves=4),
        expressions(max_leaves=4),
        expressions(refs=odd, params=("p", "end", "not"), relations=("not", "case", "a b", "in"), max_leaves=3),
    )


# Made once: making strategies costs more than drawing from them. Those that are functions of no argument are
# so for what hypothesis writes about a strategy, which is all of it otherwise, again and again.
_NAMES = names()
_MAYBE_NAME = st.one_of(st.none(), _NAMES)
_ANY_CONDITION = _conditions()


@st.composite
def conditions(draw: st.DrawFn) -> ex.Expr:
    """Any expression, names that need quoting among those in it."""
    return draw(_ANY_CONDITION)


_CONDITIONS = conditions()
_MAYBE_CONDITION = st.one_of(st.none(), st.none(), _CONDITIONS)
_DURATIONS = durations()
_MAYBE_DURATION = st.one_of(st.none(), _DURATIONS)
_MAYBE_WINDOW = st.one_of(st.none(), windows())
_PATHS = paths()


def _step_kinds() -> st.SearchStrategy[ast.StepKind]:
    events = _NAMES.map(ast.EventType)
    return st.one_of(
        events,
        events,
        st.just(ast.AnyEvent()),
        st.builds(ast.TreeMatch, _NAMES, tree_patterns()),
        st.builds(ast.QueryEvent, st.sampled_from(["found", "updated", "lost"]), _NAMES),
        st.builds(
            ast.ModelChange,
            st.sampled_from(["create", "delete", "set", "link", "unlink"]),
            _NAMES,
            _MAYBE_NAME,
        ),
    )


_ANY_KIND = _step_kinds()


@st.composite
def step_kinds(draw: st.DrawFn) -> ast.StepKind:
    """Every kind of step."""
    return draw(_ANY_KIND)


_KINDS = step_kinds()
_UNIFIES = st.one_of(st.just(()), st.lists(st.builds(ast.Unify, _PATHS, _NAMES), min_size=1, max_size=2).map(tuple))


_ANY_STEP = st.builds(ast.Step, _KINDS, _MAYBE_NAME, _UNIFIES, _MAYBE_CONDITION, _MAYBE_CONDITION)


@st.composite
def steps(draw: st.DrawFn) -> ast.Step:
    """One event of any kind."""
    return draw(_ANY_STEP)


_STEPS = steps()
_UNTIL = st.one_of(st.none(), st.builds(ast.Step, _KINDS, st.none(), _UNIFIES, _MAYBE_CONDITION))
_LINKS = st.builds(ast.Link, st.sampled_from(ast.Contiguity), _MAYBE_DURATION, _MAYBE_DURATION)
_ROUNDS = st.one_of(st.none(), st.sampled_from(ast.Contiguity))


@st.composite
def _bounds(draw: st.DrawFn) -> tuple[int, int | None]:
    low = draw(st.one_of(st.integers(0, 3), st.integers(0, limits.MAX_ROUNDS)))
    high = draw(st.one_of(st.none(), st.integers(max(1, low), limits.MAX_ROUNDS), st.just(max(1, low))))
    return low, high


def _repeat(
    element: ast.Element,
    bounds: tuple[int, int | None],
    reluctant: bool,
    rounds: ast.Contiguity | None,
    until: ast.Step | None,
) -> ast.Element:
    return ast.Repeat(element, bounds[0], bounds[1], reluctant, rounds, until)


def _repeats(smaller: st.SearchStrategy[ast.Element]) -> st.SearchStrategy[ast.Element]:
    return st.builds(
        _repeat,
        smaller,
        _bounds(),
        st.booleans(),
        _ROUNDS,
        _UNTIL,
    )


@st.composite
def _sequences(draw: st.DrawFn, smaller: st.SearchStrategy[ast.Element]) -> ast.Element:
    elements = draw(st.lists(smaller, min_size=2, max_size=3))
    return ast.Sequence(tuple(elements), tuple(draw(_LINKS) for _ in elements[1:]))


def _groups(smaller: st.SearchStrategy[ast.Element]) -> st.SearchStrategy[ast.Element]:
    groups = st.builds(ast.Group, smaller, _MAYBE_WINDOW, _MAYBE_DURATION)
    # Parentheses with nothing said about them are no node.
    return groups.map(lambda g: g.element if g.within is None and g.holds_for is None else g)


def _larger(smaller: st.SearchStrategy[ast.Element]) -> st.SearchStrategy[ast.Element]:
    several = st.lists(smaller, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        _sequences(smaller),
        _sequences(smaller),
        several.map(ast.Alternation),
        several.map(ast.Conjunction),
        _repeats(smaller),
        st.builds(ast.Absence, smaller, _MAYBE_DURATION),
        _groups(smaller),
    )


@cache
def _elements(max_leaves: int) -> st.SearchStrategy[ast.Element]:
    leaves = st.one_of(_STEPS, _STEPS, _repeats(_STEPS), st.builds(ast.Stays, _STEPS, _DURATIONS))
    return st.recursive(leaves, _larger, max_leaves=max_leaves)


@st.composite
def elements(draw: st.DrawFn, max_leaves: int = 5) -> ast.Element:
    """Elements of every kind, as they occur after ``match``."""
    return draw(_elements(max_leaves))


def _metadata() -> st.SearchStrategy[ast.Metadata]:
    words = st.one_of(_NAMES, st.text(st.characters(codec="utf-8"), max_size=8), st.just("''"))
    maybe = st.one_of(st.none(), words)
    return st.builds(ast.Metadata, maybe, maybe, st.lists(words, max_size=3).map(tuple), maybe)


def _parameters() -> st.SearchStrategy[tuple[ast.Parameter, ...]]:
    one = st.builds(ast.Parameter, _NAMES, type_names(), st.one_of(st.none(), constants()))
    return st.lists(one, max_size=3).map(tuple)


def _skips() -> st.SearchStrategy[ast.Skip]:
    plain = st.sampled_from([ast.Skip("none"), ast.Skip("to next"), ast.Skip("past last")])
    return st.one_of(plain, st.builds(ast.Skip, st.sampled_from(["to first", "to last"]), _NAMES))


@cache
def _patterns(max_leaves: int) -> st.SearchStrategy[ast.PatternDefinition]:
    outputs = st.builds(ast.Output, _CONDITIONS, _MAYBE_NAME)
    limit = st.one_of(st.integers(0, limits.MAX_EVIDENCE), st.just(ast.Evidence().limit))
    suppress = st.builds(ast.Suppress, _DURATIONS, st.lists(_NAMES, max_size=2).map(tuple))
    return st.builds(
        ast.PatternDefinition,
        name=_NAMES,
        match=elements(max_leaves),
        parameters=_parameters(),
        metadata=_metadata(),
        where=_MAYBE_CONDITION,
        within=_MAYBE_WINDOW,
        holds_for=_MAYBE_DURATION,
        partition_by=st.lists(_PATHS, max_size=2).map(tuple),
        selection=st.one_of(st.none(), st.sampled_from(ast.Selection)),
        skip=st.one_of(st.none(), _skips()),
        report_timeouts=st.booleans(),
        returns=st.lists(outputs, max_size=2).map(tuple),
        evidence=st.one_of(st.none(), limit.map(ast.Evidence)),
        suppress=st.one_of(st.none(), suppress),
    )


@st.composite
def patterns(draw: st.DrawFn, max_leaves: int = 5) -> ast.PatternDefinition:
    """Any pattern the parser could give."""
    return draw(_patterns(max_leaves))


def pattern_files(max_size: int = 2) -> st.SearchStrategy[ast.PatternFile]:
    """Files of patterns, each with a name of its own."""
    several = st.lists(patterns(max_leaves=2), min_size=1, max_size=max_size, unique_by=lambda p: p.name)
    return several.map(lambda found: ast.PatternFile(tuple(found)))
