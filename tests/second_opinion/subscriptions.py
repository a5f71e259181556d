"""Brute-force subscriptions over all pairs of documents, written from the documentation alone.

Blocks are tree patterns of the sibling module `trees`. The module shares no code with the product.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from tests.second_opinion.trees import (
    Compare,
    Has,
    Member,
    Position,
    TreeConstant,
    TreeGroup,
    TreeMatcher,
    TreeRepeat,
    TreeSequence,
    TreeStep,
    XmlNode,
    as_number,
    compare_text,
    compare_values,
    number_steps,
    print_step,
    read_document,
    steps_of,
)

# --- subscriptions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A variable, or a path behind one. Equal terms are one node."""

    variable: str
    path: tuple[tuple[str, str], ...] = ()  # axis and test of each step

    def __str__(self) -> str:
        return self.variable + "".join(axis + test for axis, test in self.path)


@dataclass(eq=False)
class Relation:
    """A comparison of two nodes, one of each block."""

    left: Term
    op: str
    right: Term


@dataclass(eq=False)
class Check:
    """A comparison of a node with a constant; the operator may be `contains`."""

    term: Term
    op: str
    constant: TreeConstant


@dataclass(eq=False)
class And:
    """A conjunction."""

    parts: list[Predicate]


@dataclass(eq=False)
class Or:
    """A disjunction."""

    parts: list[Predicate]


Predicate = Relation | Check | And | Or


@dataclass(eq=False)
class Block:
    """A stream and a tree pattern."""

    stream: str
    pattern: TreeStep


@dataclass(eq=False)
class Subscription:
    """Two blocks and their relation."""

    left: Block
    right: Block
    is_join: bool
    window: str
    window_s: float | None
    predicate: Predicate


@dataclass(eq=False)
class StreamDocument:
    """A document of a stream."""

    number: int
    stream: str
    time_s: float
    xml: str
    root: XmlNode = field(init=False)

    def __post_init__(self) -> None:
        self.root = read_document(self.xml)

    def node_at(self, position: tuple[int, int]) -> XmlNode:
        """The element or attribute at a position."""
        element = self.root.subtree()[position[0] - 1]
        return element.attributes[position[1] - 1] if position[1] else element


def print_predicate(predicate: Predicate, *, inside_and: bool = False) -> str:
    """Text between the braces; AND binds tighter than OR."""
    if isinstance(predicate, Relation):
        return f"{predicate.left} {predicate.op} {predicate.right}"
    if isinstance(predicate, Check):
        return f"{predicate.term} {predicate.op} {predicate.constant.spelling}"
    if isinstance(predicate, And):
        return " AND ".join(print_predicate(part, inside_and=True) for part in predicate.parts)
    text = " OR ".join(print_predicate(part) for part in predicate.parts)
    return f"({text})" if inside_and else text


def print_subscription(subscription: Subscription) -> str:
    """Text of a subscription in XSCL."""
    return (
        f"{subscription.left.stream}{print_step(subscription.left.pattern)} "
        f"{'JOIN' if subscription.is_join else 'FOLLOWED BY'}"
        f"{{{print_predicate(subscription.predicate)}, {subscription.window}}} "
        f"{subscription.right.stream}{print_step(subscription.right.pattern)}"
    )


def disjuncts(predicate: Predicate) -> list[list[Relation | Check]]:
    """Disjunctive normal form."""
    if isinstance(predicate, Relation | Check):
        return [[predicate]]
    if isinstance(predicate, Or):
        return [atoms for part in predicate.parts for atoms in disjuncts(part)]
    joined: list[list[Relation | Check]] = [[]]
    for part in predicate.parts:
        joined = [before + atoms for before in joined for atoms in disjuncts(part)]
    return joined


# --- matching ----------------------------------------------------------------------------------------------------

Way = frozenset[tuple[str, tuple[int, int]]]  # role of a step, position of its node


class BlockMatcher:
    """Ways in which a block, with the paths of a disjunct, lies in documents."""

    def __init__(self, pattern: TreeStep, terms: list[Term], equal: list[Term]) -> None:
        self.pattern = pattern
        self.roles: dict[int, str] = {}
        self.parents: dict[str, str | None] = {}
        self.extra: dict[int, list[TreeStep]] = defaultdict(list)
        variables: dict[str, TreeStep] = {}
        for step in _path_steps(pattern):
            self.roles[id(step)] = f"step {step.number}"
            if step.name is not None:
                variables[step.name] = step
        self.role_of: dict[Term, str] = {}
        for term in terms:
            base = variables[term.variable]
            if term.path:
                self.role_of[term] = self._attach(base, term)
            else:
                self.role_of[term] = self.roles[id(base)]
        self._link(pattern, None)
        self.equal_roles = {self.role_of[term] for term in equal}
        self.key_roles = set(self.equal_roles)
        for one, other in combinations(sorted(self.equal_roles), 2):
            self.key_roles.add(self._common_step(one, other))
        self.wanted = self.key_roles | set(self.role_of.values())
        self.ordered_key_roles = [role for role in self.parents if role in self.key_roles]

    def _attach(self, base: TreeStep, term: Term) -> str:
        chain: TreeStep | None = None
        for depth in range(len(term.path), 0, -1):
            axis, test = term.path[depth - 1]
            chain = TreeStep(axis, test, rest=chain)
            self.roles[id(chain)] = f"{term} {depth}"
        assert chain is not None
        self.extra[id(base)].append(chain)
        return f"{term} {len(term.path)}"

    def _link(self, step: TreeStep, parent: str | None) -> None:
        role = self.roles[id(step)]
        self.parents[role] = parent
        for path in self._paths(step):
            self._link(path, role)

    def _paths(self, step: TreeStep) -> Iterator[TreeStep]:
        yield from (suffix.path for suffix in step.suffixes if isinstance(suffix, Has))
        yield from self.extra[id(step)]
        if step.rest is not None:
            yield step.rest

    def _common_step(self, one: str, other: str) -> str:
        above = set()
        at: str | None = one
        while at is not None:
            above.add(at)
            at = self.parents[at]
        at = other
        while at not in above:
            assert at is not None
            at = self.parents[at]
        return at

    def ways(self, root: XmlNode) -> set[Way]:
        """All ways to match, distinguished only by the wanted steps."""
        return self._ways(TreeMatcher(self.pattern, root, {}), self.pattern, [root], None, None)

    def _ways(
        self,
        matcher: TreeMatcher,
        step: TreeStep,
        forest: list[XmlNode],
        owner: XmlNode | None,
        compare: Compare | None,
    ) -> set[Way]:
        found: set[Way] = set()
        role = self.roles[id(step)]
        for node in matcher.candidates(step, forest, owner):
            if not _fits(matcher, step, node, compare):
                continue
            here: set[Way] = {frozenset([(role, node.position)] if role in self.wanted else [])}
            below = [(suffix.path, suffix.compare) for suffix in step.suffixes if isinstance(suffix, Has)]
            below += [(path, None) for path in self.extra[id(step)]]
            if step.rest is not None:
                below.append((step.rest, compare))
            for path, condition in below:
                inner = self._ways(matcher, path, node.children, node, condition)
                here = {one | other for one in here for other in inner}
                if not here:
                    break
            found |= here
        return found


def _path_steps(step: TreeStep) -> Iterator[TreeStep]:
    """Steps outside of groups."""
    yield step
    for suffix in step.suffixes:
        if isinstance(suffix, Has):
            yield from _path_steps(suffix.path)
    if step.rest is not None:
        yield from _path_steps(step.rest)


def _fits(matcher: TreeMatcher, step: TreeStep, node: XmlNode, compare: Compare | None) -> bool:
    """Truth of all conditions on a node except its paths."""
    if step.rest is None and compare is not None and not compare_text(compare, node.text):
        return False
    suffixes = [each for each in step.suffixes if not isinstance(each, Has)]
    return not suffixes or matcher.fits(suffixes, step.test, node)


@dataclass
class Notifications:
    """Notifications of one subscription."""

    exact: Counter[tuple[int, int, tuple[tuple[str, str], ...]]] = field(default_factory=Counter)

    def pairs(self) -> Counter[tuple[int, int]]:
        """Number of notifications of each pair."""
        counts: Counter[tuple[int, int]] = Counter()
        for (left, right, _), count in self.exact.items():
            counts[left, right] += count
        return counts


def find_notifications(subscription: Subscription, documents: list[StreamDocument]) -> Notifications:
    """Evaluate a subscription for every pair of documents."""
    result = Notifications()
    plans = []
    for atoms in disjuncts(subscription.predicate):
        names = {step.name for step in _path_steps(subscription.left.pattern)}
        equal = [atom for atom in atoms if isinstance(atom, Relation) and atom.op == "="]
        terms = [
            term for atom in atoms for term in ((atom.left, atom.right) if isinstance(atom, Relation) else (atom.term,))
        ]
        equal_terms = [term for atom in equal for term in (atom.left, atom.right)]
        sides = []
        for block, is_left in ((subscription.left, True), (subscription.right, False)):
            mine = [term for term in dict.fromkeys(terms) if (term.variable in names) == is_left]
            mine_equal = [term for term in dict.fromkeys(equal_terms) if (term.variable in names) == is_left]
            matcher = BlockMatcher(block.pattern, mine, mine_equal)
            ways = {
                document.number: [dict(way) for way in matcher.ways(document.root)]
                for document in documents
                if document.stream == block.stream
            }
            sides.append((matcher, ways, mine))
        plans.append((atoms, equal_terms, sides))
    for left in documents:
        for right in documents:
            if left.number != right.number and in_window(subscription, left, right):
                _match_pair(subscription, plans, left, right, result)
    return result


def in_window(subscription: Subscription, left: StreamDocument, right: StreamDocument) -> bool:
    """Truth of the streams and times of a pair."""
    if left.stream != subscription.left.stream or right.stream != subscription.right.stream:
        return False
    distance = right.time_s - left.time_s
    if subscription.is_join:
        distance = abs(distance)
    elif distance <= 0:
        return False
    return subscription.window_s is None or distance <= subscription.window_s


def _match_pair(
    subscription: Subscription, plans: list, left: StreamDocument, right: StreamDocument, result: Notifications
) -> None:
    # Nodes of each document in the order of the block's steps -> values. The first disjunct decides about a variable.
    found: dict[tuple, dict[str, str]] = defaultdict(dict)
    for atoms, equal_terms, ((left_matcher, left_ways, left_terms), (right_matcher, right_ways, right_terms)) in plans:
        for left_way in left_ways[left.number]:
            for right_way in right_ways[right.number]:
                texts = {term: left.node_at(left_way[left_matcher.role_of[term]]).text for term in left_terms} | {
                    term: right.node_at(right_way[right_matcher.role_of[term]]).text for term in right_terms
                }
                if not all(atom_holds(atom, texts) for atom in atoms):
                    continue
                nodes = (
                    tuple(left_way[role] for role in left_matcher.ordered_key_roles),
                    tuple(right_way[role] for role in right_matcher.ordered_key_roles),
                )
                values = {term.variable: texts[term] for term in equal_terms if not term.path}
                found[nodes] = values | found[nodes]
    for values in found.values():
        result.exact[left.number, right.number, tuple(sorted(values.items()))] += 1


def atom_holds(atom: Relation | Check, texts: dict[Term, str]) -> bool:
    """Truth of one comparison."""
    if isinstance(atom, Check):
        text = texts[atom.term]
        if atom.op == "contains":
            return str(atom.constant.value) in text
        return compare_text(Compare(atom.op, atom.constant), text)
    left, right = texts[atom.left], texts[atom.right]
    if atom.op == "=":
        return left == right
    one, other = as_number(left), as_number(right)
    return one is not None and other is not None and compare_values(atom.op, one, other)


# --- random cases ------------------------------------------------------------------------------------------------

TEXTS = ["A"] * 24 + ["B"] * 6 + ["2"] * 6 + ["AB", "1", "5", " 2", "2.0", "1e1", "", "é", "A&amp;B"]
TIMES_S = [0, 0, 1, 2, 2, 3, 3.5, 5, 7, 60, 3600]
WINDOWS = [
    ("1 second", 1),
    ("2 seconds", 2),
    ("5 seconds", 5),
    ("500 milliseconds", 0.5),
    ("1 minute", 60),
    ("1 minute 30 seconds", 90),
    ("1 hour", 3600),
    *[("forever", None)] * 14,
]


def random_documents(random: Random) -> list[StreamDocument]:
    """Documents of two streams, some of them equal or at equal times."""
    documents: list[StreamDocument] = []
    for number in range(random.randint(9, 13)):
        xml = random.choice(documents).xml if documents and random.random() < 0.12 else _random_xml(random)
        documents.append(StreamDocument(number, random.choice("SSSST"), random.choice(TIMES_S), xml))
    return documents


def _random_xml(random: Random) -> str:
    budget = [random.randint(5, 11)]

    def write(name: str, depth: int) -> str:
        budget[0] -= 1
        attributes = "".join(f' {key}="{random.choice(TEXTS)}"' for key in "kj" if random.random() < 0.4)
        content = "" if depth == 0 or random.random() < 0.1 else random.choice(TEXTS)
        for _ in range(random.randint(4, 7) if depth == 0 else random.choice([0, 0, 0, 0, 0, 1, 2])):
            if budget[0] > 0 and depth < 4:
                content += write(random.choice("xxxxyyyyi"), depth + 1)
        return f"<{name}{attributes}>{content}</{name}>"

    return write(random.choice(["i"] * 9 + ["r"]), 0)


class SubscriptionMaker:
    """Random subscriptions that stay within the documented language."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = 0

    def make(self) -> Subscription:
        """A subscription with an equality in every disjunct."""
        random = self.random
        left = Block(random.choice("SSSSST"), self.pattern("l"))
        right = Block(random.choice("SSSSST"), self.pattern("r"))
        window, window_s = random.choice(WINDOWS)
        return Subscription(
            left, right, random.random() < 0.4, window, window_s, self.predicate(self.terms(left), self.terms(right))
        )

    def new_name(self, side: str) -> str:
        self.names += 1
        return f"{side}{self.names}"

    def pattern(self, side: str) -> TreeStep:
        random = self.random
        step = TreeStep("//" if random.random() < 0.85 else "/", random.choice(["i"] * 16 + ["*", "*", "r"]))
        step.arrow = random.choice(["->", "->", " AS "])
        if random.random() < 0.35:
            step.name = self.new_name(side)
        for _ in range(random.choice([0, 1, 1, 1, 2, 2, 2, 3])):
            step.suffixes.append(self.has(side, 1))
        if random.random() < 0.04:
            step.suffixes.append(Position(random.choice([1, 1, 0, 2])))
        if random.random() < 0.08:
            step.suffixes.append(TreeGroup(self.group()))
        if random.random() < 0.15 or not any(isinstance(each, Has) for each in step.suffixes):
            step.rest = self.step(side, 1)
        if not any(each.name for each in _path_steps(step)):
            list(_path_steps(step))[-1].name = self.new_name(side)
        number_steps(step)
        return step

    def group(self) -> TreeSequence:
        parts = [Member(TreeStep("/", self.random.choice("xy"))) for _ in range(2)]
        last = TreeRepeat(parts[1], 1, None, "+") if self.random.random() < 0.3 else parts[1]
        return TreeSequence([parts[0], last], [self.random.choice([":", "::"])])

    def step(self, side: str, depth: int) -> TreeStep:
        random = self.random
        if random.random() < 0.12:
            step = TreeStep(random.choice(["/", "//"]), random.choice(["@k", "@j"]))
        else:
            step = TreeStep(random.choice(["/", "//"]), random.choice("xxxxxyyyyyi*"))
            if depth < 2 and random.random() < 0.08:
                step.suffixes.append(self.has(side, depth + 1))
            if depth < 2 and random.random() < 0.06:
                step.rest = self.step(side, depth + 1)
            if random.random() < 0.05:
                step.suffixes.append(Position(random.choice([1, 2, 0])))
                step.suffixes.reverse()
        if random.random() < 0.8:
            step.name = self.new_name(side)
            step.name_at = random.choice([0, 1])
        return step

    def has(self, side: str, depth: int) -> Has:
        has = Has(self.step(side, depth))
        if self.random.random() < 0.08:
            has.compare = Compare(*self.op_and_constant())
        if self.random.random() < 0.15:
            has.prefix = "."
        return has

    def op_and_constant(self) -> tuple[str, TreeConstant]:
        random = self.random
        op = random.choice(["=", "!=", "<", "<=", ">", ">="])
        if random.random() < 0.5:
            spelling = random.choice(["1", "2", "5", "2.0"])
            return op, TreeConstant(spelling, float(spelling))
        text = random.choice(["A", "A", "A", "B", "2", "A&B", ""])
        return op, TreeConstant(f"'{text}'", text)

    def terms(self, block: Block) -> list[Term]:
        """Terms of a block; leaves occur more often, since their texts are often equal."""
        names = {step.name: step for step in _path_steps(block.pattern) if step.name is not None}
        terms = [Term(name) for name, step in names.items() for _ in range(1 if step.test in "i*r" else 6)]
        elements = [name for name, step in names.items() if not step.is_attribute]
        if elements and self.random.random() < 0.3:
            path = [(self.random.choice(["/", "//"]), self.random.choice(["x", "y", "@k", "*"]))]
            if path[0][1] in "xy" and self.random.random() < 0.15:
                path.append(("/", self.random.choice(["x", "@k"])))
            terms += [Term(self.random.choice(elements), tuple(path))] * 3
        return terms

    def predicate(self, left: list[Term], right: list[Term]) -> Predicate:
        random = self.random

        def equality() -> Relation:
            pair = [random.choice(left), random.choice(right)]
            random.shuffle(pair)
            return Relation(pair[0], "=", pair[1])

        def check() -> Predicate:
            if random.random() < 0.3:
                pair = [random.choice(left), random.choice(right)]
                random.shuffle(pair)
                return Relation(pair[0], random.choice(["<", "<=", ">", ">="]), pair[1])
            term = random.choice(left + right)
            if random.random() < 0.25:
                text = random.choice(["A", "A", "B", "2", "é"])
                return Check(term, "contains", TreeConstant(f"'{text}'", text))
            return Check(term, *self.op_and_constant())

        def conjunction() -> list[Predicate]:
            parts: list[Predicate] = [equality()]
            if random.random() < 0.25:
                parts.append(equality())
            while random.random() < 0.22:
                parts.append(check())
            random.shuffle(parts)
            return parts

        roll = random.random()
        if roll < 0.65:
            return And(conjunction())
        if roll < 0.78:
            parts = [*conjunction(), Or([And([check() for _ in range(random.choice([1, 1, 2]))]) for _ in range(2)])]
            random.shuffle(parts)
            return And(parts)
        if roll < 0.92:
            return Or([And([equality(), *(check() for _ in range(random.choice([0, 0, 1])))]) for _ in range(2)])
        return And([Or([equality(), equality()]), *(check() for _ in range(random.choice([0, 1])))])


def variable_names(subscription: Subscription) -> set[str]:
    """All variables of a subscription."""
    blocks = (subscription.left.pattern, subscription.right.pattern)
    return {step.name for pattern in blocks for step in steps_of(pattern) if step.name is not None}
