"""Random model texts as syntax trees, for property tests; needs hypothesis.

They are well-formed and in the form that the parser returns, but need not be valid.
"""

from __future__ import annotations

from hypothesis import strategies as st

from perseid.lang import expressions as ex
from perseid.lang import limits
from perseid.lang import models as m
from perseid.lang.model_printer import WORDS
from perseid.lang.model_reader import AGGREGATES
from tests.generators.expression_strategies import DEFAULT_REFS, expressions
from tests.generators.pattern_strategies import names, patterns, type_names

_REFS = (*DEFAULT_REFS, *((word,) for word in sorted(WORDS)), ("a", "find"), ("find", "top"), ("count",))


def model_names() -> st.SearchStrategy[str]:
    """Names as patterns have them, and words of models."""
    return st.one_of(names(), st.sampled_from(sorted(WORDS)))


def _some(strategy: st.SearchStrategy[object], least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def _conditions() -> st.SearchStrategy[ex.Expr]:
    return expressions(refs=_REFS, max_leaves=5)


def metamodels() -> st.SearchStrategy[m.MetamodelDefinition]:
    name = model_names()
    attributes = _some(st.builds(m.Attribute, name, type_names()))
    nodes = _some(st.builds(m.NodeType, name, _some(name, 0, 2), attributes, st.booleans()), 1)
    edges = _some(st.builds(m.EdgeType, name, name, name, st.booleans()))
    return st.builds(m.MetamodelDefinition, name, nodes, edges)


def _steps() -> st.SearchStrategy[tuple[int, int | None]]:
    between = st.tuples(st.integers(0, 4), st.integers(1, limits.MAX_STEPS)).filter(lambda pair: pair[0] <= pair[1])
    return st.one_of(st.sampled_from([(1, 1), (1, 1), (1, None), (0, None), (2, 2), (0, 1)]), between)


def _calls() -> st.SearchStrategy[m.QueryCall]:
    name = model_names()
    plain = st.builds(m.QueryCall, name, _some(name, 1))
    walked = st.builds(
        lambda query, ends, steps: m.QueryCall(query, ends, *steps), name, st.tuples(name, name), _steps()
    )
    return st.one_of(plain, walked)


def constraints() -> st.SearchStrategy[m.Constraint]:
    """Constraints of every kind, as they occur after ``find``."""
    name = model_names()
    walks = st.builds(
        lambda source, edge, target, steps: m.Walk(source, edge, target, *steps), name, name, name, _steps()
    )
    plain = st.one_of(st.builds(m.IsNode, name, name), walks, walks, _calls())
    where = st.one_of(st.none(), _conditions())
    return st.recursive(plain, lambda inner: st.builds(m.No, _some(inner, 1), where), max_leaves=3)


def _finds() -> st.SearchStrategy[m.Find]:
    name = model_names()
    counted = st.builds(m.Aggregate, name, st.just("count"), st.none(), _calls())
    of_values = [function for function in AGGREGATES if function != "count"]
    made = st.builds(m.Aggregate, name, st.sampled_from(of_values), _conditions(), _calls())
    definitions = st.one_of(st.builds(m.Let, name, _conditions()), counted, made)
    where = st.one_of(st.none(), _conditions())
    return st.builds(m.Find, _some(constraints(), 1), _some(definitions), where)


def _any_query() -> st.SearchStrategy[m.QueryDefinition]:
    name = model_names()
    order = st.builds(m.Order, _conditions(), st.booleans())
    top = st.builds(m.Top, st.integers(1, limits.MAX_ROUNDS), _some(order, 1, 2), _some(name, 0, 2))
    found = st.one_of(_some(_finds(), 1, 2), st.builds(m.Components, name, st.one_of(st.none(), name)))
    return st.builds(m.QueryDefinition, name, _some(name, 1), found, st.one_of(st.none(), top))


_ANY_QUERY = _any_query()


@st.composite
def queries(draw: st.DrawFn) -> m.QueryDefinition:
    """Queries of every form.

    They are drawn inside a composite strategy: hypothesis describes the strategy of each repeated draw as text, and the
    description of the complete language takes 200 kB.
    """
    return draw(_ANY_QUERY)


def model_files() -> st.SearchStrategy[m.ModelFile]:
    """Whole texts: no two queries of one name."""
    asked = st.lists(queries(), min_size=1, max_size=2, unique_by=lambda query: query.name).map(tuple)
    told = st.lists(patterns(max_leaves=2), max_size=1).map(tuple)
    return st.builds(m.ModelFile, st.one_of(st.none(), metamodels()), asked, told)
