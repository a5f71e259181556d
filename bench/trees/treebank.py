"""Generator of parsed sentences as in Treebank, deep and recursive, of any size.

The rules are the most frequent ones of IcePaHC's parsed sentences, with their counts in about a thousand, under
Treebank's tags; some counts are higher than there, to replace the many rules that are left out. The words are random.
One rule is far more frequent than there, so that the paper's queries have results in a megabyte: a noun phrase with a
number and a participle, of which the queries find 3 there in 265,000 elements.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.trees.words import in_pieces, random_words

_RULES = {
    "S": {
        "NP VP": 260, "VP": 125, "CC NP VP _PERIOD_": 85, "NP VP _PERIOD_": 70, "NP NP VP": 40, "ADVP NP VP": 36,
        "VP _PERIOD_": 30, "CC NP VP": 30, "S CONJP": 28, "CC VP _PERIOD_": 28, "ADVP VP": 27, "ADVP VP _PERIOD_": 23,
        "NP ADVP VP": 20, "NP PP VP": 14, "CC VP": 12, "PP VP": 11, "NP NP": 8, "PP VP _PERIOD_": 8, "NP ADJP": 7,
        "S _COMMA_ CONJP": 6, "NP VP _PERIOD_ _QUOTES_": 5,
    },
    "NP": {
        "PRP": 264, "": 130, "NN": 82, "NNP": 70, "NN DT": 52, "NN NP": 34, "NNS": 32, "CD": 22, "PRP SBAR": 22,
        "CD NN": 15, "NP NN": 15, "JJ NN": 14, "NNS NP": 11, "NNS DT": 11, "NP CONJP": 14, "DT NN": 12, "CD NNS": 10,
        "NNP NNP": 10, "PRP NP": 8, "NNP NP": 8, "DT": 8, "NP NNS": 6, "JJ NNS": 6, "JJ": 5, "DT NN SBAR": 6,
        "NN CC NN": 6, "NN PP": 18, "DT JJ NN PP": 6, "JJ NN SBAR": 6, "CD VBN NN": 4, "CD VBN NNS": 1,
    },
    "PP": {
        "IN NP": 770, "IN SBAR": 110, "RP IN NP": 20, "RB IN NP": 18, "IN S": 16, "ADVP IN": 15, "": 13, "IN ADVP": 12,
        "IN PP": 10, "NP IN NP": 8, "PP CONJP": 8,
    },
    "SBAR": {"IN S": 430, "WHNP IN S": 260, "WHADVP IN S": 140, "": 110, "WHNP S": 30, "S": 20, "SBAR CONJP": 10},
    "ADVP": {"RB": 690, "": 135, "RBR": 45, "RB SBAR": 35, "RBR PP": 25, "RBR SBAR": 25, "RBS": 17, "RB RB": 10},
    "ADJP": {
        "JJ": 480, "JJ CC JJ": 75, "": 60, "NP JJ": 45, "RB JJ": 45, "JJ NP": 35, "JJ PP": 30, "JJR": 25,
        "JJS": 20, "ADJP CONJP": 20, "RBR JJ SBAR": 20, "RBR JJ": 20, "JJR PP": 15, "JJ S": 12,
    },
    "CONJP": {"CC S": 430, "CC NP": 300, "": 58, "CC PP": 50, "S": 50, "CC ADJP": 40, "NP": 25, "CC SBAR": 20},
    "WHNP": {"": 800, "WP": 150, "WDT NN": 30, "WDT NNS": 10},
    "WHADVP": {"": 830, "WRB": 160},
}  # fmt: skip

# A verb phrase is verbs and their complements, in almost any order: there are too many rules to list.
_VERBS = {
    "VBD": 493, "VBP": 220, "TO VB": 76, "MD": 54, "VB": 44, "VBD VBN": 30, "MD VB": 23, "VBN": 19, "VBP VBN": 13, "VBG": 5,
}  # fmt: skip
_COMPLEMENT_COUNTS = {0: 110, 1: 286, 2: 256, 3: 181, 4: 96, 5: 42, 6: 16, 7: 8}
_COMPLEMENTS = {
    "NP": 654, "PP": 514, "ADVP": 230, "S": 142, "_COMMA_": 122, "SBAR": 116, "RP": 72, "ADJP": 63, "VBN": 62, "VB": 47,
    "RB": 41, "_QUOTES_": 35,
}  # fmt: skip

_MARKS = {"_PERIOD_": ".", "_COMMA_": ",", "_QUOTES_": '"', "TO": "to"}
_WORD_COUNTS = {"CC": 4, "DT": 8, "IN": 30, "MD": 9, "PRP": 20, "RP": 15, "WP": 5, "WDT": 4, "WRB": 6}
"""Number of words of a kind with few words."""
_STOCK, _ROUNDS, _FRESH = 300, 45, 3


def treebank(size: int, seed: int = 3, *, deep: int = 0) -> Iterator[bytes]:
    """Yield the document in pieces, of ``size`` bytes and the rest of a sentence.

    With ``deep``, one sentence in a hundred is a chain of nested clauses, about that many elements deep.
    """
    return in_pieces(_parts(size, random.Random(seed), deep))


def _parts(size: int, chance: random.Random, deep: int) -> Iterator[str]:
    grammar = _Grammar(chance)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<FILE>\n'
    number = 0
    while size > 0:
        number += 1
        sentence = grammar.chain(deep) if deep and number % 100 == 0 else grammar.phrase("S", _FRESH)
        size -= len(sentence) + 17
        yield f"<EMPTY>\n{sentence}</EMPTY>\n"
    yield "</FILE>\n"


@dataclass
class _Grammar:
    """Generates phrases by the rules.

    Generating every phrase from its words takes too long. So there is a stock of phrases of each kind, generated in
    iterations, each from the stock of the previous one: the last stock has the shape that the rules imply, and its
    depth is at most the number of iterations. A sentence is generated down to some depth, and from the stock below.
    """

    chance: random.Random
    rules: dict[str, list[list[str]]] = field(default_factory=dict)
    stock: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tag, counted in _RULES.items():
            self.rules[tag] = [rule.split() for rule, count in counted.items() for _ in range(count)]
        self.rules["VP"] = [self.verb_phrase() for _ in range(4_000)]
        words = {part for rules in self.rules.values() for rule in rules for part in rule} - set(self.rules)
        for tag in sorted(words):
            self.stock[tag] = [f"<{tag}>{word}</{tag}>\n" for word in self.words(tag)]
        self.stock |= {tag: [f"<{tag}>*</{tag}>\n"] for tag in self.rules}
        for _ in range(_ROUNDS):
            self.stock |= {tag: [self.phrase(tag, 0) for _ in range(_STOCK)] for tag in self.rules}

    def verb_phrase(self) -> list[str]:
        (verbs,) = self.chance.choices(list(_VERBS), list(_VERBS.values()))
        (count,) = self.chance.choices(list(_COMPLEMENT_COUNTS), list(_COMPLEMENT_COUNTS.values()))
        return [*verbs.split(), *self.chance.choices(list(_COMPLEMENTS), list(_COMPLEMENTS.values()), k=count)]

    def words(self, tag: str) -> list[str]:
        if tag in _MARKS:
            return [_MARKS[tag]]
        if tag == "CD":
            return [str(self.chance.randint(1, 2_000)) for _ in range(100)]
        return random_words(self.chance, _WORD_COUNTS.get(tag, 500))

    def phrase(self, tag: str, fresh: int) -> str:
        """Generate a phrase of a kind with ``fresh`` new levels, and from the stock below these."""
        roll, stock, rules = self.chance.random, self.stock, self.rules[tag]
        inner = ""
        for part in rules[int(roll() * len(rules))]:
            if fresh and part in self.rules:
                inner += self.phrase(part, fresh - 1)
            else:
                phrases = stock[part]
                inner += phrases[int(roll() * len(phrases))]
        return f"<{tag}>\n{inner}</{tag}>\n" if inner else f"<{tag}>*</{tag}>\n"

    def chain(self, deep: int) -> str:
        """Generate nested clauses, each of which continues after the inner one."""
        clauses = max(1, deep // 3)
        opened = [
            f"<S>\n{self.one('NP')}<VP>\n{self.one('VBD')}{self.one('NP')}<SBAR>\n{self.one('IN')}"
            for _ in range(clauses)
        ]
        closed = [f"</SBAR>\n{self.one('PP')}</VP>\n</S>\n" for _ in range(clauses)]
        return "".join([*opened, self.phrase("S", 0), *closed])

    def one(self, tag: str) -> str:
        return self.chance.choice(self.stock[tag])
