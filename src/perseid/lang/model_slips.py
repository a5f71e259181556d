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
_FIND = "Write the constraints of a query after 'find': find a: $node, a -$edge-> b."
_QUERY = "Write a query: query NAME(a) find a: $node, a -$edge-> b."
_HEAD = "Add a name and the parameters of the query: query NAME(a, b)."
_WALK = "Write an edge as a -$edge-> b, or reversed as b <-$edge- a."
_COMMAS = "Join constraints with commas: find a -$edge-> b, b: $target."
_WAYS = "Write an alternative as: or find b -$edge-> a."
_TOP = (
    "Write top 3 by a.$attribute for the largest, top 3 by a.$attribute ascending for the smallest; "
    "top 3 per b for each group."
)
_BOUNDS = "Write the number of edges as {1,3} or {2}; + is one or more, * is any number."
_NEGATION = "Write a negation as: not a -$edge-> _."
_COUNT = "Count the matches of a query with: let n = count of $query; sum(x), min, max and avg likewise."
_ORDER = "Write the clauses of a query in this order: find, let, where, top."

_IN_QUERIES = {
    "match": _QUERY,
    "select": _QUERY,
    "return": "List outputs as parameters of the query: query NAME(a, b) find a -$edge-> b.",
    "from": _QUERY,
    "optional": "Count the optional part, or write it as an alternative: or find a: $node.",
    "unwind": _COUNT,
    "with": "Call one query from another: find $query.",
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
    "having": "Write conditions on aggregates after 'where': let n = count of $query where n > 3.",
    "count": _COUNT,
    "delete": "Write model changes as input rows: a query only reads.",
    "create": "Write model changes as input rows: a query only reads.",
    "set": "Write model changes as input rows: a query only reads.",
    "=": "Name values after 'let' and compare them after 'where': let n = a.$attribute where n = 3.",
    "<>": "Compare nodes and values after 'where': where a <> b.",
    ".": "Use attributes after 'let' and 'where': where a.$attribute > 3.",
    "->": _WALK,
    "->>": _WALK,
    "->[": _WALK,
    "top": _ORDER,
    "rule": _BEGIN,
    "node": "Declare the nodes and edges of a model together, before the queries. " + _NODE,
    "edge": "Declare the nodes and edges of a model together, before the queries. " + _EDGE,
}  # fmt: skip
_NEGATION_WORDS = r"\b(no|neg|neg\s+find|without|exists|not\s+exists|none|never)"
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
    for recognise in _RECOGNISERS:
        found = recognise(spot)
        if found is not None:
            return found if found.hint is None else found._replace(hint=with_names(found.hint, spot.text))
    return None


def with_names(hint: str, text: str) -> str:
    """Fill the placeholders of a hint with names of the model in the text, or with common names without one."""
    names = {"node": "User", "edge": "likes", "target": "Comment", "attribute": "age", "query": "fans(a, _)"}
    for form in (_DECLARED_NODE, _DECLARED_EDGE, _DECLARED_NUMBER):
        found = form.search(text)
        names |= {} if found is None else found.groupdict()
    query = _DECLARED_QUERY.search(text)
    if query is not None:
        names["query"] = f"{query[1]}({', '.join(['_'] * query[2].count(',') + ['a'])})"
    return _PLACEHOLDER.sub(lambda found: names[found[1]], hint)


_PLACEHOLDER = re.compile(r"\$(node|edge|target|attribute|query)")
_DECLARED_NODE = re.compile(r"\bnode\s+(?P<node>\w{1,40})\b", re.IGNORECASE)
_DECLARED_EDGE = re.compile(r"\bedge\s+(?P<edge>\w{1,40})\s+\w+\s*->\s*(?P<target>\w{1,40})\b", re.IGNORECASE)
_DECLARED_NUMBER = re.compile(
    r"\bnode\b[^\n()]{0,200}\((?:[^()]{0,500}?[\s,])?(?P<attribute>\w{1,40}+)\s{1,20}+(?:int|bigint|integer|long|double|float)\b",
    re.IGNORECASE,
)
_DECLARED_QUERY = re.compile(r"\bquery\s+(\w{1,40})\s*\(([\w\s,]{1,200})\)\s*find\b", re.IGNORECASE)


def _begin(spot: Spot) -> Slip | None:
    if spot.expected != _HEADS:
        return None
    if not spot.text.strip():
        return Slip(_BEGIN, "The text is empty.")
    hint = _QUERY if spot.word in ("match", "select", "find") else _BEGIN
    message = "Expected 'model', 'query', 'pattern', 'rule' or 'repair' at the beginning of the text"
    return Slip(hint, f"{message}, got '{str(spot.token)[:_SHORT]}'.")


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
        named = spot.behind(r"\bquery\s+[\w`]+") is not None
        missing = "Missing parameters of the query." if named else "Missing query name."
        hint = _HEAD if not named else "Add the parameters of the query: query NAME(a, b)."
        return Slip(hint, missing if spot.at_end else None)
    if spot.word == ":" and spot.behind(r"\bquery\s+[\w`]+\s*\([\w\s,`]*"):
        return Slip("Write the type after 'find': query NAME(a) find a: $node.", "Unexpected ':' after a parameter.")
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
    absent = spot.behind(_NEGATION_WORDS)
    if absent is not None and spot.token.type in ("NAME", "_FIND", "LPAR", "_NOT"):
        hint = _negation(spot, absent)
        return Slip(hint, f"Unexpected '{absent[1]}'.", absent.start(1), len(absent[1]))
    return None


def _negation(spot: Spot, absent: re.Match[str]) -> str:
    """The negated call or edge as the language writes it."""
    found = spot.ahead(r"(?:find\s+)?(\w{1,40}\s*\([\w\s,]{1,60}\)|\w{1,40}\s*<?-[\w+*{}, -]{1,60}>?\s*\w{1,40})")
    if found is None:
        return _NEGATION
    clause = re.findall(r"\b(?:find|where)\b", spot.text[: absent.start()].lower())
    advice = "Move it to 'find'" if clause[-1:] == ["where"] else "Write"
    return f"{advice}: not {found[1]}."


def _from_cypher(found: re.Match[str] | None) -> str:
    if found is None or not found["a"] or (found["e"] and not found["b"]):
        return "a: User -likes-> b"
    first = found["a"] + (f": {found['A']}" if found["A"] else "")
    if not found["e"]:
        return first if found["A"] else f"{first}: User"
    arrow = f"<-{found['e']}-" if found["back"] else f"-{found['e']}->"
    return f"{first} {arrow} {found['b']}" + (f": {found['B']}" if found["B"] else "")


def _bounds(spot: Spot) -> Slip | None:
    open_ = spot.behind(r"(\w{1,40})\s*-\s*(\w{1,40})\s*\{\s*([1-9]\d{0,4})\s*,") if spot.word == "}" else None
    if open_ is not None:
        end = spot.ahead(r"\}\s*->\s*(\w{1,40})")
        walk = f"{open_[1]} -{open_[2]}{{{open_[3]}}}-> x, x -{open_[2]}*-> {end[1] if end else 'b'}"
        return Slip(f"Write {open_[3]} edges, then any number: {walk}.", f"{{{open_[3]},}} is unsupported for edges.")
    if spot.behind(r"[-\w`]\s*\{[\d,\s]*") or (spot.token.type in ("INTEGER", "DECIMAL") and spot.behind(r"-\w+[*+]")):
        return Slip(_BOUNDS)
    return None


def _walks(spot: Spot) -> Slip | None:
    """An edge without its dashes, its name or its direction."""
    if spot.expected & {"ARROW"} and spot.behind(r"-\s*[\w`]+\s*[+*]?"):
        return Slip("Add a direction. " + _WALK)
    is_edge_position = "COLON" in spot.expected or {"MINUS", "LPAR"} <= spot.expected
    if not is_edge_position or spot.token.type != "NAME" or spot.word in _IN_QUERIES:
        return None
    left, right = spot.behind(r"\b([A-Za-z_]\w{0,40})"), spot.ahead(r"([A-Za-z_]\w{0,40})[ \t]+([A-Za-z_]\w{0,40})")
    if left is None or right is None:
        return None
    return Slip(f"Write an edge between dashes: {left[1]} -{right[1]}-> {right[2]}.")


def _arguments(spot: Spot) -> Slip | None:
    """An argument of a query that is not a variable."""
    called = spot.behind(r"(?<![\w.])([A-Za-z_]\w*)[+*]?\s*\((?:\s*[\w`]+\s*,)*\s*[\w`]*")
    if (
        called is None
        or spot.at_end
        or spot.word in (")", ",")
        or not spot.expected <= {"NAME", "QUOTED", "COMMA", "RPAR"}
    ):
        return None
    return Slip(f"Call a query with variables: {called[1][:_SHORT]}(a, x) where x = 3; _ matches any value.")


def _values(spot: Spot) -> Slip | None:
    if "_OF" in spot.expected and spot.behind(r"\b(?:count|(?:sum|min|max|avg)\s*\([^()]*\))"):
        call = spot.ahead(r"\w{1,40}\s*\([\w\s,]{1,60}\)")
        return Slip(f"Write: count of {call[0]}." if call and spot.behind(r"\bcount") else _COUNT)
    if spot.expected == {"_OF"}:
        edges = spot.ahead(r"\w{1,40}")
        return Slip(f"Write connected components as: components of {edges[0] if edges else 'QUERY'}.")
    if "DIRECTION" in spot.expected and spot.word in ("asc", "desc"):
        return Slip("Use 'ascending' or 'descending'; the default is descending.")
    if spot.expected & {"_BY", "_PER"} or spot.behind(r"\btop(?:\s+\d+)?"):
        return Slip(_TOP)
    return None


def _order_by(spot: Spot) -> Slip | None:
    """``order by a.age limit 3``; the default order is ascending."""
    order = spot.ahead(r"order\s+by\s+([\w.]{1,80})(?:\s+(asc|desc)\w{0,6}\b)?(?:\s+limit\s+(\d{1,4}))?")
    if order is None or not spot.expected & {"_QUERY", "_LET", "_OR_FIND"}:
        return None
    ascending = "" if (order[2] or "").lower() == "desc" else " ascending"
    return Slip(
        f"Write top {order[3] or 3} by {order[1]}{ascending}. The default of 'top' is the largest values first."
    )


def _rule(spot: Spot) -> Slip | None:
    """A rule or a repair without 'on'."""
    head = spot.behind(r"\b(rule|repair)\s+([\w`]{1,40})") if spot.expected == {"_ON"} else None
    if head is None:
        return None
    call = spot.ahead(r"(?:\w+\s+)?(\w{1,40}\s*\([\w\s,]{1,60}\))")
    query = call[1] if call else "$query"
    if head[1].lower() == "repair":
        return Slip(f"Write a repair as: repair {head[2]} on {query} do delete a.")
    return Slip(f"Write a rule as: rule {head[2]} on found {query} do set a.$attribute = 3.")


def _clauses(spot: Spot) -> Slip | None:
    """An unexpected end, a keyword of another language, or a clause out of order."""
    if spot.expected & {"_QUERY", "_LET", "_OR_FIND"} or spot.expected >= {"NAME", "_NOT"}:
        if spot.word in ("let", "where"):
            return _repeated_clause(spot)
        if spot.word == "." and (call := spot.ahead(r"\.\s*(\w{1,40})\s*\(\s*(\w{1,40})")):
            source = spot.behind(r"\b\w{1,40}")
            return Slip(f"Write an edge as {source[0] if source else 'a'} -{call[1]}-> {call[2]}.")
        if spot.word == "or" and spot.ahead(r"or\s*\Z"):
            return Slip(_WAYS, "Missing alternative after 'or'.")
        if spot.word in _IN_QUERIES:
            return Slip(_IN_QUERIES[spot.word])
        word = spot.behind(r"\b(find|not)") if spot.at_end else None
        if word is not None:
            return Slip(_FIND, f"Missing constraint after '{word[1]}'.", word.start(1), len(word[1]))
        if spot.token.type == "NAME" and "_LET" in spot.expected:
            return Slip(f"{_COMMAS} {_ORDER}")
    if spot.at_end and (word := spot.behind(r"\b(where|let)")):
        noun, example = (
            ("condition", "where a.$attribute > 3") if word[1].lower() == "where" else ("value", "let n = 3")
        )
        return Slip(f"Add a {noun}: {example}.", f"Missing {noun} after '{word[1]}'.", word.start(1), len(word[1]))
    return None


def _repeated_clause(spot: Spot) -> Slip:
    """``let`` or ``where`` twice, or in the wrong order."""
    so_far = re.split(r"\bfind\b", spot.before[-500:].lower())[-1]
    clauses = set(re.findall(r"\b(?:let|where|top)\b", so_far))
    if spot.word == "let" and "where" in clauses:
        return Slip("Write 'let' before 'where'.")
    if spot.word not in clauses:
        return Slip(_ORDER)
    join = (
        "Join the conditions with 'and'."
        if spot.word == "where"
        else "Join definitions with a comma: let n = 3, m = 4."
    )
    return Slip(join, f"Duplicate clause '{spot.word}'.")


_RECOGNISERS = (
    _begin, _about_kinds, _head, _rule, _other_languages, _bounds, _walks, _arguments, _order_by, _values, _clauses,
)  # fmt: skip
