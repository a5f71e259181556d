"""Random subscriptions and documents, small enough to join often."""

from __future__ import annotations

import random
from xml.sax.saxutils import escape, quoteattr

from perseid.errors import PerseidError
from perseid.lang.subscriptions import Subscription
from perseid.lang.xscl import parse_subscription
from perseid.reference.subscriptions import Document
from perseid.semantics.documents import Element
from perseid.semantics.subscriptions import normal_forms

TAGS = "ab"
TEXTS = ["1", "1", "1", "2", "x"]


def element(name: str, *content: Element | str, **attributes: str) -> Element:
    return Element(("", name), {("", k): v for k, v in attributes.items()}, content)


def xml(one: Element) -> str:
    name = one.name[1]
    attributes = "".join(f" {k[1]}={quoteattr(v)}" for k, v in one.attributes.items())
    inner = "".join(escape(part) if isinstance(part, str) else xml(part) for part in one.content)
    return f"<{name}{attributes}>{inner}</{name}>"


def random_root(chance: random.Random, depth: int) -> Element:
    below = [random_root(chance, depth - 1) for _ in range(chance.randrange(1, 4))] if depth else []
    content: list[Element | str] = [*below]
    if not below or chance.random() < 0.3:
        content.insert(0, chance.choice(TEXTS))
    attributes = {chance.choice("pq"): chance.choice("12") for _ in range(chance.randrange(2))}
    return element(chance.choice(TAGS), *content, **attributes)


def random_documents(chance: random.Random) -> list[Document]:
    """Returns documents in the order of their times, some of them equal."""
    made = [
        (chance.randrange(6) * 1_000_000, chance.choice("SSST"), random_root(chance, chance.choice([1, 2, 2, 3])))
        for _ in range(chance.randrange(4, 9))
    ]
    made.sort(key=lambda one: one[0])
    return [Document(i, *one) for i, one in enumerate(made)]


class RandomSubscription:
    """A text, and the variables it has so far."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.names: list[str] = []

    def named(self, often: float) -> str:
        if self.chance.random() >= often:
            return ""
        self.names.append(f"v{len(self.names)}")
        return "->" + self.names[-1]

    def step(self, depth: int) -> str:
        chance = self.chance
        axis = chance.choice(["/", "//", "//"])
        if depth < 2 and chance.random() < 0.08:
            return f"{axis}@{chance.choice('pq')}{self.named(0.7)}"
        text = axis + chance.choice(TAGS + ("**" if chance.random() < 0.6 else ""))
        text += self.named(1 if depth == 2 else 0.7)
        if depth:
            for _ in range(chance.choice([0, 1, 1, 2])):
                if chance.random() < 0.08:
                    text += f"[/{chance.choice(TAGS)} {chance.choice(['=', '<', '>=', '!='])} {self.constant()}]"
                else:
                    text += f"[{self.step(depth - 1)}]"
            if chance.random() < 0.1:
                text += f"(/{chance.choice(TAGS)}::/{chance.choice(TAGS)})"
            if chance.random() < 0.2:
                text += self.step(depth - 1)
        return text

    def constant(self) -> str:
        return self.chance.choice(["1", "2", "'x'", "'1'"])

    def text(self) -> str:
        chance = self.chance
        left = self.step(2)
        own = len(self.names)
        right = self.step(2)
        mine, other = self.names[:own], self.names[own:]
        parts = []
        for _ in range(chance.choice([1, 1, 1, 2, 2, 3])):
            pair = [
                chance.choice(mine) + (f"//{chance.choice(TAGS)}" if chance.random() < 0.1 else ""),
                chance.choice(other),
            ]
            chance.shuffle(pair)
            parts.append(" = ".join(pair))
        if chance.random() < 0.2:
            parts.append(f"{chance.choice(self.names)} contains '{chance.choice('x1')}'")
        if chance.random() < 0.2:
            parts.append(f"{chance.choice(self.names)} {chance.choice(['=', '<', '<=', '>', '!='])} {self.constant()}")
        if chance.random() < 0.15:
            parts.append(f"{chance.choice(mine)} {chance.choice(['<', '>='])} {chance.choice(other)}")
        chance.shuffle(parts)
        predicate = " AND ".join(parts)
        if chance.random() < 0.1:
            predicate = predicate.replace(" AND ", " OR ", 1)
        # Alternatives that often both hold: together they are one notification.
        if " OR " not in predicate and chance.random() < 0.2:
            either = (f"{chance.choice(self.names)} {chance.choice(['contains', '!='])} '{text}'" for text in "1z")
            predicate += f" AND ({' OR '.join(either)})"
        if chance.random() < 0.1:
            predicate = f"({predicate}) OR {chance.choice(mine)} = {chance.choice(other)}"
        window = chance.choice(["forever", "forever", "0 seconds", "2 seconds", "5 seconds"])
        relation = chance.choice(["JOIN", "FOLLOWED BY"])
        return f"{chance.choice('SSST')}{left} {relation}{{{predicate}, {window}}} {chance.choice('SSST')}{right}"


def random_subscriptions(chance: random.Random, most: int = 4) -> dict[str, Subscription]:
    """Returns random subscriptions; invalid ones are left out."""
    made = {}
    for i in range(chance.randrange(1, most + 1)):
        try:
            read = parse_subscription(RandomSubscription(chance).text())
            normal_forms(read)
        except PerseidError:
            continue
        made[f"q{i}"] = read
    return made
