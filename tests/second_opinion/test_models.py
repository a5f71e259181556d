"""Random live models: the product against the reference evaluator in :mod:`tests.second_opinion.models`.

Each case has random queries and random changes. PERSEID_SECOND_OPINION_CASES sets the number of cases; seeds are
``range(n)``. A failure prints the seed, the text, the changes and both results.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import itertools
import os
import random
import warnings
from collections import Counter
from typing import Any

import pytest

import perseid as ps
from tests.second_opinion import models as so

CASES = int(os.environ.get("PERSEID_SECOND_OPINION_CASES", "500"))
BLOCKS = 10
DEEP_CASES = 50_000
DEEP_BLOCKS = 50
SEEDS_PER_TEXT = 10
TEXTS_PER_PATTERN = 5
SEEDS_PER_PATTERN = 50
SEEDS_PER_FINAL_STATE = 5
LEAST_COMPARED = 0.6
LEAST_NON_EMPTY = 0.25
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

SCHEMA = so.ModelSchema(
    nodes=(
        so.NodeType("A", (("x", "bigint"), ("y", "bigint"), ("s", "string"), ("r", "double"))),
        so.NodeType("B", (("z", "bigint"),), above="A"),
        so.NodeType("C", (("x", "bigint"), ("w", "bigint"))),
    ),
    edges=(
        so.EdgeType("e", "A", "A"),
        so.EdgeType("f", "A", "C", one=True),
        so.EdgeType("g", "C", "A"),
        so.EdgeType("h", "A", "B"),
    ),
)
NODE_NAMES = ("a", "b", "c", "d")
STRINGS = ("n1", "n2", "n10", "", "é", "it's")
VALUES: dict[str, tuple[Any, ...]] = {
    "bigint": (0, 1, 1, 2, 2, 3, -1, -2, 9, 10),
    "double": (0.5, 1.0, 1.5, 2.0, 10.0, -1.5),
    "string": STRINGS,
}
TIED_SETS = 0.15
TEXT_ELEMENTS = ("n1", "n2", "n3", "n10", "N1", "é")
NUMBER_ELEMENTS = (1, 2, 3, 10, 11, -4)


# random queries


class Writer:
    """Generates the queries of one text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.queries: list[so.ModelQuery] = []
        self.values = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def write(self) -> list[so.ModelQuery]:
        for number in range(self.random.randint(1, 4)):
            name = f"q{number}"
            self.queries.append(self.components(name) or self.query(name))
        queries = list(self.queries)
        if self.chance(0.3):
            self.random.shuffle(queries)
        return queries

    def components(self, name: str) -> so.ModelQuery | None:
        pairs = [query for query in self.queries if query.sorts in (("A", "A"), ("A", "B"), ("B", "A"), ("C", "C"))]
        if not pairs or not self.chance(0.25):
            return None
        pair = self.random.choice(pairs)
        over = [query for query in self.queries if len(query.sorts) == 1 and query.sorts[0] in ("A", "B", "C")]
        chosen = self.random.choice(over).name if over and self.chance(0.4) else None
        sort = "C" if pair.sorts[0] == "C" else "A"
        return so.ModelQuery(name, ("a", "k"), (sort, sort), components=(pair.name, chosen))

    def query(self, name: str) -> so.ModelQuery:
        way, sorts = self.way({})
        ranked = sorted(sorts)
        if not ranked:
            return self.query(name)
        self.random.shuffle(ranked)
        number = min(len(ranked), self.random.choice((1, 1, 2, 2, 3)))
        parameters = tuple(ranked[:number])
        if self.chance(0.3) and len(ranked) > 1:
            nodes = [each for each in ranked if sorts[each] not in so.VALUE_SORTS]
            parameters = tuple(nodes[:2]) or parameters
        wanted = {each: sorts[each] for each in parameters}
        ways = [way]
        while self.chance(0.25) and len(ways) < 3:
            ways.append(self.way(wanted)[0])
        top = self.top(wanted) if self.chance(0.3) else None
        return so.ModelQuery(name, parameters, tuple(wanted.values()), tuple(ways), top)

    def top(self, sorts: dict[str, str]) -> so.Top | None:
        orders = []
        for _ in range(self.random.choice((1, 1, 2))):
            made = self.number(sorts, 1) if self.chance(0.8) else self.text(sorts)
            if made is not None and not isinstance(made, so.Constant):
                orders.append((made, self.random.choice(("", "", "ascending", "descending"))))
        if not orders:
            return None
        per = (self.random.choice(list(sorts)),) if self.chance(0.3) else ()
        return so.Top(self.random.choice((1, 1, 2, 3)), tuple(orders), per)

    def way(self, wanted: dict[str, str]) -> tuple[so.Way, dict[str, str]]:
        sorts: dict[str, str] = {}
        positives: list[so.Positive] = []
        for name, sort in wanted.items():
            if sort not in so.VALUE_SORTS:
                sorts[name] = sort
                positives.append(so.OfType(name, sort))
        for _ in range(self.random.choice((1, 1, 2, 2, 3)) - (1 if positives else 0)):
            positives.append(self.positive(sorts))
        negatives = [self.negative(sorts) for _ in range(self.random.choice((0, 0, 0, 0, 1, 1, 2)))]
        lets = []
        for name, sort in wanted.items():
            if name not in sorts:
                made = self.valued(sorts, sort)
                lets.append(so.Let(name, made))
                sorts[name] = sort
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            if len(lets) < 3:
                lets.append(self.let(sorts))
        where = self.condition(sorts, 2) if self.chance(0.3) else None
        return so.Way(tuple(positives), tuple(negatives), tuple(lets), where), sorts

    def fresh(self, sort: str) -> str:
        self.values += 1
        return {"bigint": "v", "double": "m", "string": "t"}[sort] + str(self.values)

    def node(self, sorts: dict[str, str], wanted: str, *, new: bool = True, old: bool = True) -> str | None:
        """A variable for a node of the wanted type, known before or new."""
        fitting = [name for name, sort in sorts.items() if sort == wanted or (wanted == "A" and sort == "B")]
        free = [name for name in NODE_NAMES if name not in sorts]
        if old and fitting and (not free or not new or self.chance(0.7)):
            return self.random.choice(fitting)
        if new and free:
            name = self.random.choice(free)
            sorts[name] = wanted
            return name
        return None

    def closure(self) -> so.Closure:
        return self.random.choice(
            (
                so.ONCE,
                so.ONCE,
                so.ONCE,
                so.Closure(1, None),
                so.Closure(0, None),
                so.Closure(2, 2),
                so.Closure(1, 2),
                so.Closure(0, 1),
            )
        )

    def positive(self, sorts: dict[str, str], local: dict[str, str] | None = None) -> so.Positive:
        sorts = sorts if local is None else local
        kind = self.random.random()
        if kind < 0.3:
            sort = self.random.choice(("A", "A", "B", "C"))
            name = self.node(sorts, sort)
            if name is not None:
                if sorts[name] == "A" and self.chance(0.2):
                    sorts[name] = sort = "B"
                return so.OfType(name, sort)
        if kind < 0.6 and self.queries:
            return self.call(sorts)
        edge = self.random.choice(SCHEMA.edges)
        source = self.node(sorts, edge.source) if self.chance(0.9) else so.ANY
        target = self.node(sorts, edge.target) if self.chance(0.85) else so.ANY
        source, target = source or so.ANY, target or so.ANY
        closure = self.closure() if edge.name == "e" else so.ONCE
        source_type = target_type = None
        if closure.least == 0:
            # Typed at both ends: the documentation does not name the nodes that a walk of no edge starts from.
            source_type, target_type = "A", "A"
        elif edge.name == "e" and target != so.ANY and self.chance(0.15):
            target_type = sorts[target] = "B"
        return so.Connected(source, edge.name, target, closure, self.chance(0.3), source_type, target_type)

    def call(self, sorts: dict[str, str], query: so.ModelQuery | None = None, free: float = 0.2) -> so.CallConstraint:
        query = query or self.random.choice(self.queries)
        arguments = []
        for sort in query.sorts:
            name: str | None = so.ANY
            if not self.chance(free):
                if sort in so.VALUE_SORTS:
                    known = [each for each, other in sorts.items() if other == sort]
                    if known and self.chance(0.75):
                        name = self.random.choice(known)
                    else:
                        name = self.fresh(sort)
                        sorts[name] = sort
                else:
                    name = self.node(sorts, sort) or so.ANY
            arguments.append(name or so.ANY)
        closure = self.closure() if query.sorts == ("A", "A") else so.ONCE
        if closure.least == 0:
            closure = so.Closure(1, None)
        return so.CallConstraint(query.name, tuple(arguments), closure)

    def negative(self, sorts: dict[str, str]) -> so.Without:
        local = dict(sorts)
        inner = [self.positive(local, local)]
        where = None
        if self.chance(0.4):
            inner.append(self.positive(local, local))
            if self.chance(0.6):
                where = self.condition(local, 1)
        # A type that the negation narrows holds only inside it.
        return so.Without(tuple(inner), where)

    def let(self, sorts: dict[str, str]) -> so.Let:
        if self.queries and self.chance(0.5):
            query = self.random.choice(self.queries)
            local = dict(sorts)
            call = self.call(local, query, free=0.35)
            inner = {name: sort for name, sort in local.items() if name in call.arguments}
            function = self.random.choice(("count", "count", "sum", "min", "max", "avg"))
            made = self.number(inner, 0) if function != "count" else None
            if made is None or isinstance(made, so.Constant):
                name = self.fresh("bigint")
                sorts[name] = "bigint"
                return so.Let(name, None, "count", call)
            sort = "double" if function == "avg" else "bigint"
            name = self.fresh(sort)
            sorts[name] = sort
            return so.Let(name, made, function, call)
        sort = self.random.choice(("bigint", "bigint", "bigint", "double", "string"))
        made = self.valued(sorts, sort)
        name = self.fresh(sort)
        sorts[name] = sort
        return so.Let(name, made)

    def valued(self, sorts: dict[str, str], sort: str) -> so.Expression:
        made = {
            "bigint": lambda: self.number(sorts, 1),
            "double": lambda: self.double(sorts),
            "string": lambda: self.text(sorts),
        }[sort]()
        return made if made is not None else so.Constant({"bigint": 1, "double": 0.5, "string": "n1"}[sort])

    def number(self, sorts: dict[str, str], depth: int) -> so.Expression | None:
        choices: list[so.Expression] = []
        for name, sort in sorts.items():
            if sort == "bigint":
                choices.append(so.Name(name))
            elif sort not in so.VALUE_SORTS:
                for attribute, kind in SCHEMA.attributes(sort).items():
                    if kind == "bigint" and (attribute != "z" or self.chance(0.5)):
                        choices.append(so.Attribute(name, attribute))
                        if self.chance(0.25):
                            choices.append(self.moving(name, attribute, ("min", "max", "count")))
        if not choices:
            return None
        first = self.random.choice(choices)
        if depth and self.chance(0.25):
            second = self.random.choice((*choices, so.Constant(self.random.randint(-2, 3))))
            if self.chance(0.3):
                return so.Coalesce(first, second)
            return so.Binary(self.random.choice("+-*"), first, second)
        return first

    def moving(self, name: str, attribute: str, functions: tuple[str, ...]) -> so.Moving:
        function = self.random.choice(functions)
        if self.chance(0.5):
            return so.Moving(function, name, attribute, last=self.random.randint(1, 3))
        return so.Moving(function, name, attribute, seconds=self.random.randint(1, 4))

    def double(self, sorts: dict[str, str]) -> so.Expression | None:
        choices: list[so.Expression] = [so.Name(name) for name, sort in sorts.items() if sort == "double"]
        for name, sort in sorts.items():
            if sort in ("A", "B"):
                choices.append(so.Attribute(name, "r"))
                choices.append(self.moving(name, self.random.choice(("x", "r")), ("avg", "avg", "sum")))
            elif sort == "C":
                choices.append(self.moving(name, "w", ("avg", "sum")))
        return self.random.choice(choices) if choices else None

    def text(self, sorts: dict[str, str]) -> so.Expression | None:
        choices: list[so.Expression] = [so.Name(name) for name, sort in sorts.items() if sort == "string"]
        choices += [so.Attribute(name, "s") for name, sort in sorts.items() if sort in ("A", "B")]
        return self.random.choice(choices) if choices else None

    def condition(self, sorts: dict[str, str], depth: int) -> so.Expression:
        if depth and self.chance(0.35):
            left, right = self.condition(sorts, depth - 1), self.condition(sorts, depth - 1)
            return so.Binary(self.random.choice(("and", "or")), left, right)
        if depth and self.chance(0.15):
            return so.Negated(self.condition(sorts, depth - 1))
        operator = self.random.choice(("=", "<>", "<", "<=", ">", ">="))
        nodes = [name for name, sort in sorts.items() if sort not in so.VALUE_SORTS]
        if len(nodes) > 1 and self.chance(0.2):
            return so.Binary(operator, *map(so.Name, self.random.sample(nodes, 2)))
        kind = self.random.random()
        made = self.number(sorts, 1) if kind < 0.65 else self.double(sorts) if kind < 0.8 else self.text(sorts)
        if made is None:
            return so.Binary(operator, so.Constant(1), so.Constant(self.random.randint(0, 2)))
        if self.chance(0.15):
            return so.IsNull(made, self.chance(0.5))
        other: so.Expression | None
        if kind < 0.65:
            other = so.Constant(self.random.randint(-1, 3)) if self.chance(0.6) else self.number(sorts, 0)
        elif kind < 0.8:
            operator = self.random.choice(("<", "<=", ">", ">="))
            other = so.Constant(self.random.choice((0.5, 1.0, 1.5, 2.0)))
        else:
            other = so.Constant(self.random.choice(STRINGS))
        return so.Binary(operator, made, other or so.Constant(1))


# random changes


def write_changes(chosen: random.Random, elements: tuple[Any, ...], ordered: bool) -> list[tuple[int, int, so.Change]]:
    """Random (time, number, change) rows of one model."""
    rows: list[tuple[int, int, so.Change]] = []
    shadow = so.Graph(SCHEMA)
    now = 0
    for transaction in range(chosen.randint(3, 7)):
        changes: list[so.Change] = []
        for _ in range(chosen.randint(8, 16) if transaction == 0 else chosen.choice((1, 1, 2, 3, 4, 6))):
            made = write_change(chosen, elements, shadow, fill=transaction == 0)
            changes.append(made)
            if made.action == "set" and chosen.random() < TIED_SETS:
                changes.append(write_value(chosen, made, shadow.kinds.get(made.element, "A")))
            if ordered or made.action in ("create", "set"):
                shadow.apply(made, now)
        if ordered and shadow.kinds and chosen.random() < 0.2:
            changes.extend(write_recreation(chosen, shadow, now))
        if not ordered:
            changes.sort(key=lambda change: so.PHASES.index(change.action))
            shadow_changes = [change for change in changes if change.action not in ("create", "set")]
            for change in shadow_changes:
                shadow.apply(change, now)
        share = chosen.choice((1, 1, 2, 3)) if ordered else 1
        rows.extend((now, number // share, change) for number, change in enumerate(changes))
        now += chosen.choice((1, 1, 1, 2, 3))
    return rows


def write_recreation(chosen: random.Random, shadow: so.Graph, now: int) -> list[so.Change]:
    """Delete one node and create it again, with some or all of its values and edges."""
    element = chosen.choice(list(shadow.kinds))
    kind, values = shadow.kinds[element], dict(shadow.attributes[element])
    edges = [edge for edge in shadow.edges if element in edge[1:]]
    changes = [so.Change("delete", element)]
    if chosen.random() < 0.85:
        changes.append(so.Change("create", element, kind=chosen.choice((kind, kind, kind, "A", "B", "C"))))
        share = chosen.choice((0.0, 0.5, 1.0))
        changes += [
            so.Change("set", element, attribute=name, value=value)
            for name, value in values.items()
            if chosen.random() < share
        ]
        changes += [
            so.Change("link", a, kind=name, target=b)
            for name, a, b in sorted(edges, key=repr)
            if chosen.random() < share
        ]
    for change in changes:
        shadow.apply(change, now)
    return changes


def write_value(chosen: random.Random, change: so.Change, kind: str) -> so.Change:
    """A set of the same attribute with another random value."""
    sort = SCHEMA.attributes(kind).get(change.attribute or "", "bigint")
    value = None if chosen.random() < 0.12 else chosen.choice(VALUES[sort])
    return dataclasses.replace(change, value=value)


def write_change(chosen: random.Random, elements: tuple[Any, ...], shadow: so.Graph, fill: bool) -> so.Change:
    known = list(shadow.kinds)
    wild = chosen.random() < 0.08
    weights = (6, 0, 5, 6, 0) if fill else (2, 1.5, 5, 4, 2)
    action = chosen.choices(("create", "delete", "set", "link", "unlink"), weights)[0]
    absent = [element for element in elements if element not in shadow.kinds]
    if action == "create" or not known:
        return so.Change(
            "create", chosen.choice(absent if absent and not wild else elements), kind=chosen.choice("AABC")
        )
    element = chosen.choice(elements if wild else known)
    if action == "delete":
        return so.Change("delete", element)
    kind = shadow.kinds.get(element, "A")
    if action == "set":
        attributes = SCHEMA.attributes("B" if wild and kind != "C" else kind)
        attribute = chosen.choice(list(attributes))
        value = None if chosen.random() < 0.12 else chosen.choice(VALUES[attributes[attribute]])
        return so.Change("set", element, attribute=attribute, value=value)
    if action == "unlink" and shadow.edges and not wild:
        name, source, target = chosen.choice(sorted(shadow.edges, key=repr))
        return so.Change("unlink", source, kind=name, target=target)
    edges = [edge for edge in SCHEMA.edges if wild or SCHEMA.is_a(kind, edge.source)]
    edge = chosen.choice(edges)
    fitting = [other for other in known if SCHEMA.is_a(shadow.kinds[other], edge.target)]
    target = chosen.choice(fitting if fitting and not wild else list(elements))
    return so.Change(action, element, kind=edge.name, target=target)


# patterns over the events of a model

LOGGED = (
    *((action, node.name, None) for action in ("create", "delete") for node in SCHEMA.nodes if node.above is None),
    *(
        ("set", node.name, attribute)
        for node in SCHEMA.nodes
        for attribute, sort in node.attributes
        if sort == "bigint"
    ),
    *((action, edge.name, None) for action in ("link", "unlink") for edge in SCHEMA.edges),
)


def pattern_text(query: so.ModelQuery) -> str:
    """Returns patterns with matches that the test derives from the reference event list."""
    steps = " | ".join(
        f"change {action} {kind}{'.' + attribute if attribute else ''} c{number}"
        for number, (action, kind, attribute) in enumerate(LOGGED)
    )
    first = query.parameters[0]
    return f"""
pattern elementary
match {steps}

pattern in_a_row
match (lost {query.name} a | updated {query.name} b), (updated {query.name} c | found {query.name} d)

pattern comes_and_goes
match found {query.name}({first} as w) a -> lost {query.name}({first} as w) b
within forever
"""


@functools.lru_cache(maxsize=8)
def write_text(number: int) -> tuple[list[so.ModelQuery], str, Any]:
    """Queries, their text, and the metamodel or the typed error."""
    queries = Writer(number).write()
    text = SCHEMA.text() + "".join(query.text() for query in queries)
    if number % TEXTS_PER_PATTERN == 0:
        text += pattern_text(queries[0])
    try:
        return queries, text, ps.graph.metamodel(text)
    except ps.PerseidError as error:
        return queries, text, error


@functools.lru_cache(maxsize=8)
def compile_patterns(number: int) -> Any:
    return ps.patterns(write_text(number)[2])


def second(time: dt.datetime | int) -> int:
    if isinstance(time, int):
        return time // 1_000_000 - int(BEGIN.timestamp())
    return int((time - BEGIN).total_seconds())


def check(seed: int) -> str:
    """Compare one case; returns ``empty``, ``non-empty`` or ``rejected`` with the error type."""
    number = seed // SEEDS_PER_TEXT
    queries, text, metamodel = write_text(number)
    if isinstance(metamodel, ps.PerseidError):
        return f"rejected: {type(metamodel).__name__}"
    chosen = random.Random(f"changes {seed}")
    elements = NUMBER_ELEMENTS if chosen.random() < 0.2 else TEXT_ELEMENTS
    ordered = chosen.random() < 0.7
    keys: tuple[Any, ...] = (
        ((),) if chosen.random() < 0.6 else (("s1",), ("s2",)) if chosen.random() < 0.7 else (("s1",), (None,))
    )
    changes = {key: write_changes(chosen, elements, ordered) for key in keys}
    rows = []
    for key, listed in changes.items():
        for time, place, change in listed:
            row = {"ts": BEGIN + dt.timedelta(seconds=time), "n": place, **change.row()}
            rows.append(row | {"site": key[0]} if key else row)
    chosen.shuffle(rows)
    expected = {key: so.run(SCHEMA, queries, listed, ordered) for key, listed in changes.items()}
    watched = [query.name for query in queries if chosen.random() < 0.5] if chosen.random() < 0.2 else []

    def agree(what: str, product: Any, reference: Any) -> None:
        if product != reference:
            steps = "\n".join(f"  {key} {row}" for key, listed in changes.items() for row in listed)
            lines = "\n".join(
                ("by n" if ordered else "by phase", text, steps, f"product:   {product}", f"reference: {reference}")
            )
            pytest.fail(f"seed {seed}: {what}\n{lines}", pytrace=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.errors.PerseidWarning)
        model = ps.graph.model(rows, metamodel, key="site" if keys != ((),) else (), order_by="n" if ordered else ())
        try:
            table = model.events(*watched).to_pylist()
        except ps.PerseidError as error:
            return f"rejected: {type(error).__name__}"
        parameters = {query.name: query.parameters for query in queries}
        events: dict[tuple[Any, ...], list[Any]] = {key: [] for key in keys}
        for row in table:
            word, query = row["_type"].split(" ")
            values = tuple(row[name] for name in parameters[query])
            events[(row["site"],) if keys != ((),) else ()].append((second(row["_time"]), word, query, values))
        wanted = {
            key: [each for each in log.events if not watched or each[2] in watched] for key, log in expected.items()
        }
        agree("events", events, wanted)
        if seed % SEEDS_PER_FINAL_STATE:
            return "non-empty" if table else "empty"
        agree("matches", model.matches(), {key: log.matches for key, log in expected.items()})
        rejected = Counter(
            (key, second(time), change.action, change.element) for key, time, change, _ in model.rejected()
        )
        agree(
            "rejected changes",
            rejected,
            Counter((key, *each) for key, log in expected.items() for each in log.rejected),
        )
        if seed % SEEDS_PER_PATTERN == 0:
            check_patterns(number, queries[0], model, keys, expected, agree)
    return "non-empty" if table else "empty"


def check_patterns(
    number: int,
    query: so.ModelQuery,
    model: Any,
    keys: tuple[Any, ...],
    expected: dict[Any, so.Log],
    agree: Any,
) -> None:
    patterns = compile_patterns(number)

    def bound(match: Any) -> list[Any]:
        """(key, (time, place), type, attributes) of each event of the match in order."""
        found = [event for events in match.bindings.values() for event in events]
        found.sort(key=lambda event: (event.time, event.attributes["_place"]))
        return found

    def key_of(event: Any) -> tuple[Any, ...]:
        return (event.attributes["site"],) if keys != ((),) else ()

    def describe(event: Any) -> tuple[Any, ...]:
        return (
            second(event.time),
            event.type.split(" ")[0],
            tuple(event.attributes[name] for name in query.parameters),
        )

    made: dict[Any, list[Any]] = {key: [] for key in keys}
    single = sorted(
        (bound(match)[0] for match in patterns["elementary"].match(model)),
        key=lambda e: (e.time, e.attributes["_place"]),
    )
    for event in single:
        given = event.attributes
        names = ("kind", "attribute", "element", "target", "old", "new")
        made[key_of(event)].append((second(event.time), event.type.split(" ")[1], *(given[name] for name in names)))
    logged = {(action, attribute) for action, _, attribute in LOGGED}
    wanted = {key: [each for each in log.changes if (each[1], each[3]) in logged] for key, log in expected.items()}
    agree("elementary changes", made, wanted)

    mine = {key: [(t, w, v) for t, w, name, v in log.events if name == query.name] for key, log in expected.items()}
    pairs = Counter(
        (key, one, two)
        for key, listed in mine.items()
        for one, two in itertools.pairwise(listed)
        if one[1] in ("lost", "updated") and two[1] in ("updated", "found")
    )
    got = Counter(
        (key_of(bound(match)[0]), *map(describe, bound(match))) for match in patterns["in_a_row"].match(model)
    )
    agree("strict pairs", got, pairs)

    pairs = Counter()
    for key, listed in mine.items():
        for place, one in enumerate(listed):
            if one[1] == "found" and one[2][0] is not None:
                later = next((two for two in listed[place + 1 :] if two[1] == "lost" and two[2][0] == one[2][0]), None)
                if later is not None:
                    pairs[key, one, later] += 1
    got = Counter(
        (key_of(bound(match)[0]), *map(describe, bound(match))) for match in patterns["comes_and_goes"].match(model)
    )
    agree("found and lost", got, pairs)


def check_block(seeds: range) -> None:
    outcomes = Counter(check(seed) for seed in seeds)
    compared = outcomes["empty"] + outcomes["non-empty"]
    assert compared >= LEAST_COMPARED * len(seeds), outcomes
    assert outcomes["non-empty"] >= LEAST_NON_EMPTY * compared, outcomes


def block(cases: int, blocks: int, number: int) -> range:
    return range(cases * number // blocks, cases * (number + 1) // blocks)


def test_reference_gives_the_events_of_the_guide() -> None:
    schema = so.ModelSchema(
        nodes=(
            so.NodeType("Host", tuple((name, "bigint") for name in ("available_cpu", "total_cpu", "ram"))),
            so.NodeType("App"),
        ),
        edges=(so.EdgeType("runs_on", "App", "Host", one=True),),
    )
    host = so.OfType("host", "Host")
    overcommitted = so.Binary(">", so.Attribute("host", "available_cpu"), so.Attribute("host", "total_cpu"))
    counted = so.Let("apps", None, "count", so.CallConstraint("on", ("_", "host")))
    queries = (
        so.ModelQuery("overcommitted", ("host",), ("Host",), (so.Way((host,), where=overcommitted),)),
        so.ModelQuery(
            "busy",
            ("host", "apps"),
            ("Host", "bigint"),
            (so.Way((host,), lets=(counted,), where=so.Binary(">", so.Name("apps"), so.Constant(1))),),
        ),
        so.ModelQuery("on", ("app", "host"), ("App", "Host"), (so.Way((so.Connected("app", "runs_on", "host"),)),)),
    )
    changes = (
        (0, so.Change("create", "h1", kind="Host")),
        (0, so.Change("set", "h1", attribute="available_cpu", value=4)),
        (0, so.Change("set", "h1", attribute="total_cpu", value=8)),
        (0, so.Change("create", "a", kind="App")),
        (0, so.Change("link", "a", kind="runs_on", target="h1")),
        (1, so.Change("create", "b", kind="App")),
        (1, so.Change("link", "b", kind="runs_on", target="h1")),
        (2, so.Change("set", "h1", attribute="available_cpu", value=10)),
        (3, so.Change("set", "h1", attribute="ram", value=32)),
        (4, so.Change("unlink", "b", kind="runs_on", target="h1")),
    )
    log = so.run(schema, queries, [(time, number, change) for number, (time, change) in enumerate(changes)], False)
    assert [(time, f"{word} {name}", match[0]) for time, word, name, match in log.events if name != "on"] == [
        (1, "found busy", "h1"),
        (2, "found overcommitted", "h1"),
        (2, "updated busy", "h1"),
        (3, "updated overcommitted", "h1"),
        (3, "updated busy", "h1"),
        (4, "updated overcommitted", "h1"),
        (4, "lost busy", "h1"),
    ]
    assert log.matches == {"overcommitted": [("h1",)], "on": [("a", "h1")], "busy": []}


@pytest.mark.parametrize("number", range(BLOCKS))
def test_queries_over_models_agree_with_recomputation(number: int) -> None:
    check_block(block(CASES, BLOCKS, number))


@pytest.mark.deep
@pytest.mark.parametrize("number", range(DEEP_BLOCKS))
def test_queries_over_models_agree_with_recomputation_deep(number: int) -> None:
    check_block(block(DEEP_CASES, DEEP_BLOCKS, number))
