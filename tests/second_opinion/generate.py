"""Random patterns and streams; the same seed gives the same case."""

from __future__ import annotations

import random

from tests.second_opinion.contexts import ARROWS, CONTEXTS
from tests.second_opinion.pattern_tree import (
    THEN,
    Alt,
    Arrow,
    Condition,
    Conj,
    Event,
    Group,
    Node,
    Not,
    Pattern,
    Rep,
    Seq,
    Step,
    nodes_of,
)

TYPES = "ABC"
STREAMS_PER_CASE = 2
SEEDS_PER_PATTERN = 2  # neighboring seeds share a pattern: parsing dominates the cost of a case
QUANTIFIERS = [(0, 1), (0, None), (1, None), (2, 2), (2, None), (0, 2), (1, 2), (2, 3)]
OPERATORS = ["<", "<=", "=", "<>", ">=", ">"]


def random_stream(rng: random.Random) -> list[Event]:
    time = rng.randint(0, 3)
    events = []
    for _ in range(rng.randint(3, 8)):
        kind = "X" if rng.random() < 0.08 else rng.choice(TYPES)
        events.append(Event(kind, time, None if rng.random() < 0.05 else rng.randint(0, 3)))
        time += rng.choice([0, 1, 1, 1, 2, 3])
    return events


def random_streams(seed: int) -> list[list[Event]]:
    rng = random.Random(f"streams {seed}")
    return [random_stream(rng) for _ in range(STREAMS_PER_CASE)]


def sequence_case(seed: int) -> tuple[Pattern, list[list[Event]]]:
    """A pattern with arrows of its own, and streams."""
    rng = random.Random(f"sequence {seed // SEEDS_PER_PATTERN}")
    root = random_root(rng)
    pattern = Pattern(root, *_window(rng), is_strictly_later=rng.random() < 0.15)
    _add_conditions(rng, pattern)
    names = [node.name for node in nodes_of(root) if isinstance(node, Step) and node.name]
    if rng.random() < 0.45:
        name = rng.choice(names)
        pattern.skip = rng.choice(["none", "to next", "past last", f"to first {name}", f"to last {name}"])
    if rng.random() < 0.05:
        pattern.holds = rng.randint(1, 5)
    return pattern, random_streams(seed)


def random_root(rng: random.Random, is_context: bool = False) -> Node:
    """Returns a tree without an empty match; most do not end with a reluctant repetition that may be skipped."""
    root = TreeGenerator(rng, is_context).root()
    while is_nullable(root) or (ends_idle(root) and rng.random() < 0.9):
        root = TreeGenerator(rng, is_context).root()
    return root


def ends_idle(node: Node) -> bool:
    """True if a reluctant repetition at the end can take nothing; the product rejects most such patterns."""
    match node:
        case Seq(items):
            for _, item in reversed(items):
                if ends_idle(item):
                    return True
                if not is_nullable(item):
                    break
            return False
        case Alt(parts) | Conj(parts):
            return any(map(ends_idle, parts))
        case Rep(body, low, _, is_greedy):
            return (low == 0 and not is_greedy) or ends_idle(body)
        case Group(body):
            return ends_idle(body)
    return False


def is_nullable(node: Node) -> bool:
    """True if the node can match no event at all."""
    match node:
        case Seq(items):
            return all(is_nullable(item) for _, item in items)
        case Alt(branches):
            return any(map(is_nullable, branches))
        case Conj(members):
            return all(map(is_nullable, members))
        case Rep(body, low):
            return low == 0 or is_nullable(body)
        case Group(body):
            return is_nullable(body)
    return isinstance(node, Not)


def _window(rng: random.Random) -> tuple[int | None, str]:
    pick = rng.random()
    if pick < 0.04:
        return None, "seconds"
    if pick < 0.18:
        return rng.randint(2, 8), "events"
    return rng.choice([3, 5, 8, 30]), "seconds"


class TreeGenerator:
    """Draws pattern trees with a bounded number of steps."""

    def __init__(self, rng: random.Random, is_context: bool = False) -> None:
        self.rng = rng
        self.is_context = is_context
        self.steps_left = rng.choice([2, 3, 3, 4, 4, 5, 6])
        self.names = 0

    def root(self) -> Node:
        pick = self.rng.random()
        if pick < 0.8:
            return self.sequence(0)
        return self.element(0)

    def step(self) -> Step:
        self.steps_left -= 1
        self.names += 1
        kind = "any" if self.rng.random() < 0.04 else self.rng.choice(TYPES)
        return Step(kind, f"s{self.names}")

    def arrow(self) -> Arrow:
        if self.is_context:
            return THEN
        kind = self.rng.choice(["->", "->", "->", ",", ",", "->>"])
        after = self.rng.randint(1, 3) if self.rng.random() < 0.05 else None
        within = self.rng.randint(1, 6) if self.rng.random() < 0.08 else None
        return Arrow(kind, after, within)

    def sequence(self, depth: int) -> Seq:
        items: list[tuple[Arrow, Node]] = []
        if depth == 0 and not self.is_context and self.rng.random() < 0.04:
            items.append((THEN, Not(self.forbidden(), self.rng.randint(1, 4))))
        for _ in range(self.rng.randint(2, 4)):
            arrow = self.arrow()
            if items and self.rng.random() < 0.15 and not is_nullable(items[-1][1]):
                items.append((THEN, self.absence()))
                arrow = arrow if arrow.kind != "," or self.rng.random() < 0.1 else THEN
            elif items and isinstance(items[0][1], Not) and len(items) == 1:
                arrow = THEN
            items.append((arrow, self.element(depth + 1)))
            if self.steps_left <= 0:
                break
        if depth == 0 and self.rng.random() < (0.0 if self.is_context else 0.08):
            items.append((THEN, self.absence()))
        return Seq(items)

    def absence(self) -> Not:
        timed = not self.is_context and self.rng.random() < 0.35
        return Not(self.forbidden(), self.rng.randint(1, 4) if timed else None)

    def forbidden(self) -> Node:
        step = Step(self.rng.choice(TYPES))
        pick = self.rng.random()
        if pick < 0.1:
            return Rep(step, 2, 2)
        if pick < 0.2:
            return Alt([step, Step(self.rng.choice(TYPES))])
        if pick < 0.3 and not self.is_context:
            return Seq([(THEN, step), (self.rng.choice([THEN, Arrow(",")]), Step(self.rng.choice(TYPES)))])
        return step

    def element(self, depth: int) -> Node:
        pick = self.rng.random()
        if self.steps_left < 2 or depth > 3 or pick < 0.35:
            return self.repeated(self.step(), depth) if self.rng.random() < 0.3 else self.step()
        if pick < 0.52:
            return Alt([self.element(depth + 1) for _ in range(self.rng.choice([2, 2, 3]))])
        if pick < 0.66:
            return self.conjunction(depth)
        if pick < 0.88:
            return self.repeated(self.body(depth), depth)
        if pick < 0.95:
            unit = "events" if self.rng.random() < 0.2 else "seconds"
            body = self.sequence(depth + 1)
            if not self.is_context and self.rng.random() < 0.15:
                body.items.append((THEN, self.absence()))
            return Group(body, self.rng.randint(1, 5), unit)
        return self.sequence(depth + 1)

    def body(self, depth: int) -> Node:
        pick = self.rng.random()
        if pick < 0.35:
            return self.sequence(depth + 1)
        if pick < 0.65:
            return Alt([self.element(depth + 1), self.element(depth + 1)])
        return self.element(depth + 1)

    def conjunction(self, depth: int) -> Conj:
        members: list[Node] = []
        for _ in range(self.rng.choice([2, 2, 3])):
            member = self.element(depth + 1)
            members += member.members if isinstance(member, Conj) else [member]
        if self.rng.random() < 0.12 and not any(isinstance(m, Not) for m in members):
            members.append(Not(Step(self.rng.choice(TYPES))))
        return Conj(members)

    def repeated(self, body: Node, depth: int) -> Rep:
        low, high = self.rng.choice(QUANTIFIERS)
        mode = ""
        if not self.is_context and self.rng.random() < 0.2:
            mode = self.rng.choice(["consecutive", "relaxed", "combinations"])
        until = Step(self.rng.choice(TYPES)) if self.rng.random() < 0.08 else None
        return Rep(body, low, high, self.rng.random() < 0.7, mode, until)


def _add_conditions(rng: random.Random, pattern: Pattern) -> None:
    steps = named_steps(pattern.root, [])
    for i, (step, chain) in enumerate(steps):
        if rng.random() < 0.15:
            step.condition = Condition(("v",), rng.choice(OPERATORS), ("const", rng.randint(0, 3)))
        elif rng.random() < 0.12:
            earlier = [other.name for other, above in steps[:i] if above == chain[: len(above)]]
            if earlier:
                step.condition = Condition(("v",), rng.choice(OPERATORS), ("ref", rng.choice(earlier)))
        elif chain and rng.random() < 0.12:
            step.condition = rng.choice(
                [
                    Condition(("sum", step.name), "<=", ("const", rng.randint(1, 6))),
                    Condition(("count", step.name), "<=", ("const", rng.randint(1, 3))),
                    Condition(("v",), rng.choice(OPERATORS), ("prev", step.name)),
                ]
            )
        if rng.random() < 0.04:
            step.must = Condition(("v",), rng.choice(["<=", "<>", ">="]), ("const", rng.randint(0, 3)))
    if rng.random() < 0.15:
        single = [step.name for step, chain in steps if all(rep.high == 1 for rep in chain)]
        if len(single) > 1:
            one, two = rng.sample(single, 2)
            pattern.where.append(Condition(("ref", one), rng.choice(OPERATORS), ("ref", two)))
    if rng.random() < 0.12:
        repeated = [step.name for step, chain in steps if chain]
        if repeated:
            function = rng.choice(["sum", "count", "min", "max", "first", "last", "median"])
            name = rng.choice(repeated)
            pattern.where.append(Condition((function, name), rng.choice(["<=", ">="]), ("const", rng.randint(1, 4))))


def named_steps(node: Node, chain: list[Rep]) -> list[tuple[Step, list[Rep]]]:
    """The named steps in the order of the text, each with the repetitions around it."""
    if isinstance(node, Step):
        return [(node, chain)] if node.name else []
    if isinstance(node, Rep):
        return named_steps(node.body, [*chain, node])
    if isinstance(node, Group):
        return named_steps(node.body, chain)
    parts: list[Node] = []
    if isinstance(node, Seq):
        parts = [item for _, item in node.items]
    elif isinstance(node, Alt | Conj):
        parts = node.branches if isinstance(node, Alt) else node.members
    return [found for part in parts for found in named_steps(part, chain)]


def context_case(seed: int) -> tuple[Pattern, list[list[Event]]]:
    """A pattern with a selection, and streams."""
    rng = random.Random(f"context {seed // SEEDS_PER_PATTERN}")
    selection = rng.choice([*CONTEXTS, *CONTEXTS, *ARROWS])
    root = _plain_sequence(rng) if selection == "cumulative" else random_root(rng, is_context=True)
    later = selection not in CONTEXTS and rng.random() < 0.15
    pattern = Pattern(root, *_window(rng), selection=selection, is_strictly_later=later)
    _add_conditions(rng, pattern)
    return pattern, random_streams(seed)


def _plain_sequence(rng: random.Random) -> Seq:
    items: list[tuple[Arrow, Node]] = []
    for i in range(rng.randint(2, 4)):
        if items and rng.random() < 0.1:
            items.append((THEN, Not(Step(rng.choice(TYPES)))))
        items.append((THEN, Step(rng.choice(TYPES), f"s{i + 1}")))
    return Seq(items)
