"""Diagnoses common mistakes in model files and suggests corrections."""

from __future__ import annotations

import re

from perseid.lang.first_look import LEXEME
from perseid.lang.spots import Slip, Spot

_HEADS = frozenset({"_MODEL", "_QUERY", "_PATTERN", "_RULE", "_REPAIR"})
_TYPES = frozenset({"_NODE", "_EDGE", "ABSTRACT"})
_SHORT = 40

_BEGIN = "Begin with model NAME and its nodes and edges, query NAME(…), pattern NAME, rule NAME or repair NAME."
_NODE = "Write a node type as: node User (name string, age bigint)."
_EDGE = "Write an edge type with its name, source and target: edge likes User -> Comment."
_FIND = "Write the constraints of a query after 'find': find a: User, a -likes-> b."
_HEAD = "Add the parameters of the query: query fans(post, user)."
_WALK = "Write an edge as a -likes-> b, or reversed as b <-likes- a."
_COMMAS = "Join constraints with commas: find a -likes-> b, b: Comment."
_WAYS = "Write an alternative as: or find b -likes-> a."
_TOP = (
    "Write top 3 by a.score for the largest, top 3 by a.score ascending for the smallest; top 3 per b for each group."
)
_BOUNDS = "Write the number of consecutive edges as {1,3} or {2}; + is one or more, * is any number."
_ABSENT = "Write absence as: not a -likes-> _."
_COUNT = "Count the matches of a query with: let n = count of fans(post, _); sum(x), min, max and avg likewise."
_ARGUMENTS = "Call a query with variables: fans(post, age) where age = 3; _ matches any value."
_ORDER = "Write the clauses of a query in this order, each once: find, let, where, or find, top."

_IN_QUERIES = {
    "match": _FIND,
    "select": "List outputs as parameters of the query: query fans(post, user) find user -likes-> post.",
    "return": "List outputs as parameters of the query: query fans(post, user) find user -likes-> post.",
    "from": _FIND,
    "optional": "Count the optional part, or write it as an alternative: or find a: User.",
    "unwind": _COUNT,
    "with": "Call one query from another: find fans(post, user).",
    "join": _COMMAS,
    "and": _COMMAS,
    "&": _COMMAS,
    "or": _WAYS,
    "union": _WAYS,
    "|": _WAYS,
    "find": _WAYS,
    "order": _TOP,
    "limit": _TOP,
    "skip": _TOP,
    "group": _COUNT,
    "having": "Write conditions on aggregates after 'where': let n = count of fans(post, _) where n > 3.",
    "count": _COUNT,
    "delete": "Write model changes as input rows: a query only reads.",
    "create": "Write model changes as input rows: a query only reads.",
    "set": "Write model changes as input rows: a query only reads.",
    "=": "Name values after 'let' and compare them after 'where': let n = a.age where n = 3.",
    "<>": "Compare nodes and values after 'where': where a <> b.",
    ".": "Use attributes after 'let' and 'where': where a.age > 3. " + _WALK,
    "->": _WALK,
    "->>": _WALK,
    "->[": _WALK,
    "where": _ORDER,
    "let": _ORDER,
    "top": _ORDER,
    "rule": _BEGIN,
    "node": "Declare the nodes and edges of a model together, before the queries. " + _NODE,
    "edge": "Declare the nodes and edges of a model together, before the queries. " + _EDGE,
}  # fmt: skip
_ABSENCE_WORDS = r"\b(no|neg|neg\s+find|without|exists|not\s+exists|none|never)"
_TYPE_WORDS = {"class": _NODE, "entity": _NODE, "type": _NODE, "vertex": _NODE, "table": _NODE, "relation": _EDGE}
_CYPHER = re.compile(
    r"\(\s*(?P<a>\w{0,40})\s*(?::\s*(?P<A>\w{1,40})\s*)?\)\s*"
    r"(?:(?P<back><)?-\s*\[\s*\w{0,40}\s*:?\s*(?P<e>\w{1,40})[^\]\n]{0,40}\]\s*-(?P<forth>>)?\s*"
    r"\(\s*(?P<b>\w{0,40})\s*(?::\s*(?P<B>\w{1,40})\s*)?\))?"
)


def in_pattern(spot: Spot) -> bool:
    """Return True if the position is in a pattern, not in a model or a query."""
    last = ""
    for found in LEXEME.finditer(spot.text, 0, spot.at):
        word = found.group().lower()
        if word in ("pattern", "query", "model"):
            last = word
    return last == "pattern"


def model_slip(spot: Spot) -> Slip | None:
    """Diagnose a common mistake in a model file, or return None."""
    for recognise in (_begin, _about_kinds, _head, _other_languages, _bounds, _walks, _arguments, _values, _clauses):
        found = recognise(spot)
        if found is not None:
            return found
    return None


def _begin(spot: Spot) -> Slip | None:
    if spot.expected != _HEADS:
        return None
    if not spot.text.strip():
        return Slip(_BEGIN, "The text is empty.")
    hint = _FIND + " Add query NAME(a, b) before it." if spot.word in ("match", "select", "find") else _BEGIN
    return Slip(hint, f"Unexpected '{spot.word[:_SHORT]}' at the beginning of the text.")


# kinds of element


def _about_kinds(spot: Spot) -> Slip | None:
    if spot.behind(r"\bedge(?:\s+[^\n()]*)?") and not spot.expected & _TYPES:
        return Slip(_EDGE)
    if spot.word == ":" and spot.behind(r"\(\s*(?:[^()\n]*,\s*)?[\w`]+") and spot.behind(r"\bnode\b[^\n]*"):
        return Slip("Write an attribute as its name and type, without a colon: name string.")
    if not spot.expected & _TYPES:
        return Slip(_NODE) if spot.behind(r"\bnode(?:\s[^\n]*)?") and spot.at_end else None
    if spot.word in _TYPE_WORDS:
        return Slip(_TYPE_WORDS[spot.word])
    if spot.word in ("extends", "isa", ":", "<", "implements", "below"):
        return Slip("Write supertypes after 'is': node Comment is Submission (text string).")
    if spot.word in ("{", "[") or (spot.token.type == "NAME" and spot.behind(r"\bnode\s+[\w`]+")):
        return Slip("Write attributes in parentheses: node User (name string, age bigint).")
    return Slip(f"{_NODE} {_EDGE}")


# queries


def _head(spot: Spot) -> Slip | None:
    if spot.behind(r"\bquery(?:\s+[\w`]+)?") and not spot.expected & {"_FIND", "_LET"}:
        return Slip(_HEAD)
    if spot.word == ":" and spot.behind(r"\bquery\s+[\w`]+\s*\([\w\s,`]*"):
        return Slip("Write the type after 'find': query q(a) find a: User.", "Unexpected ':' after a parameter.")
    if spot.expected != {"_FIND", "_COMPONENTS"}:
        return None
    if spot.at_end or spot.word in _IN_QUERIES or spot.token.type != "NAME":
        return Slip(_FIND)
    return Slip(_FIND, "Missing 'find'.")


def _other_languages(spot: Spot) -> Slip | None:
    """Nodes in parentheses and edges in brackets, the syntax of Cypher and SQL/PGQ."""
    if spot.word == "(" and spot.expected >= {"NAME", "_NOT"}:
        found = _CYPHER.match(spot.text, spot.at, spot.at + 300)
        return Slip(f"Write nodes without parentheses: {_from_cypher(found)}.")
    if spot.word == "[" and spot.before.endswith("-"):
        edge = spot.ahead(r"\[\s*\w*\s*:?\s*(\w{1,40})")
        return Slip(f"Write an edge without brackets: a -{edge[1] if edge else 'likes'}-> b.")
    absent = spot.behind(_ABSENCE_WORDS)
    if absent is not None and spot.token.type in ("NAME", "_FIND", "LPAR", "_NOT"):
        return Slip(_ABSENT, f"Unexpected '{absent[1]}'.", absent.start(1), len(absent[1]))
    return None


def _from_cypher(found: re.Match[str] | None) -> str:
    if found is None or not found["a"] or (found["e"] and not found["b"]):
        return "a: User -likes-> b"
    first = found["a"] + (f": {found['A']}" if found["A"] else "")
    if not found["e"]:
        return first if found["A"] else f"{first}: User"
    arrow = f"<-{found['e']}-" if found["back"] else f"-{found['e']}->"
    return f"{first} {arrow} {found['b']}" + (f": {found['B']}" if found["B"] else "")


def _bounds(spot: Spot) -> Slip | None:
    if spot.behind(r"[-\w`]\s*\{[\d,\s]*") or (spot.token.type in ("INTEGER", "DECIMAL") and spot.behind(r"-\w+[*+]")):
        return Slip(_BOUNDS)
    return None


def _walks(spot: Spot) -> Slip | None:
    """An edge without its dashes, its name or its direction."""
    if spot.expected & {"ARROW"} and spot.behind(r"-\s*[\w`]+\s*[+*]?"):
        return Slip("Add a direction. " + _WALK)
    begun = "COLON" in spot.expected or {"MINUS", "LPAR"} <= spot.expected
    if not begun or spot.token.type != "NAME" or spot.word in _IN_QUERIES:
        return None
    left, right = spot.behind(r"\b([A-Za-z_]\w{0,40})"), spot.ahead(r"([A-Za-z_]\w{0,40})[ \t]+([A-Za-z_]\w{0,40})")
    if left is None or right is None:
        return None
    return Slip(f"Write an edge between dashes: {left[1]} -{right[1]}-> {right[2]}.")


def _arguments(spot: Spot) -> Slip | None:
    """An argument of a query that is not a variable."""
    called = spot.behind(r"(?<![\w.])[A-Za-z_]\w*[+*]?\s*\((?:\s*[\w`]+\s*,)*\s*[\w`]*")
    if (
        called is None
        or spot.at_end
        or spot.word in (")", ",")
        or not spot.expected <= {"NAME", "QUOTED", "COMMA", "RPAR"}
    ):
        return None
    return Slip(_ARGUMENTS)


def _values(spot: Spot) -> Slip | None:
    if "_OF" in spot.expected and spot.behind(r"\b(?:count|(?:sum|min|max|avg)\s*\([^()]*\))"):
        return Slip(_COUNT)
    if spot.expected == {"_OF"}:
        return Slip("Write connected components as: components of pals, or components of pals over users.")
    if "DIRECTION" in spot.expected and spot.word in ("asc", "desc"):
        return Slip("Use 'ascending' or 'descending'; the default is descending.")
    if spot.expected & {"_BY", "_PER"} or spot.behind(r"\btop(?:\s+\d+)?"):
        return Slip(_TOP)
    return None


def _clauses(spot: Spot) -> Slip | None:
    """An unexpected end, a keyword of another language, or a clause out of order."""
    if spot.expected & {"_QUERY", "_LET", "_OR_FIND"} or spot.expected >= {"NAME", "_NOT"}:
        if spot.word in _IN_QUERIES:
            return Slip(_IN_QUERIES[spot.word])
        if spot.at_end and spot.behind(r"\b(?:find|not)"):
            return Slip(_FIND)
        if spot.at_end and spot.behind(r"\b(?:where|let)"):
            return Slip("Add a condition, where a.age > 3, or a named value, let n = a.age * 2.")
        if spot.token.type == "NAME" and "_LET" in spot.expected:
            return Slip(f"{_COMMAS} {_ORDER}")
    return None
