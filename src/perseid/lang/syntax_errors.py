"""Convert grammar errors to :class:`~perseid.errors.PatternSyntaxError` with a diagnosis and a hint.

The parser reports the token it found and the terminals it accepts. The diagnosis checks common mistakes first
(operators and keywords of other languages, missing units, open brackets), then the nearest clause keyword, then lists
the accepted terminals.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from perseid.errors import PatternSyntaxError, nearest
from perseid.lang.first_look import LEXEME, span_at
from perseid.lang.model_slips import in_pattern, model_slip
from perseid.lang.spots import Slip, Spot, unclosed

CLAUSE_WORDS = (
    "match", "where", "within", "holds for", "partition by", "selection", "after match skip",
    "report timeouts", "return", "suppress", "severity", "owner", "tags", "description",
)  # fmt: skip

_CLAUSE_TERMINALS = frozenset(
    (
        "_MATCH", "_WHERE", "_WITHIN", "_HOLDS", "_PARTITION", "_SELECTION", "_AFTER", "_REPORT", "_RETURN",
        "_SUPPRESS", "_SEVERITY", "_OWNER", "_TAGS", "_DESCRIPTION",
    )
)  # fmt: skip
_WORDS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "INTEGER": "a number",
    "DECIMAL": "a number",
    "DOUBLE": "a number",
    "STRING": "a string in single quotes",
    "PARAM": "a parameter (:name)",
    "UNIT": "a time unit (seconds, minutes, hours, …)",
    "ARROW": "an arrow (-> or ->> or ,)",
    "COMPARE": "a comparison (= <> < <= > >=)",
    "SUM_OP": "an operator",
    "PRODUCT_OP": "an operator",
    "RELUCTANT": "'?'",
    "SELECTION": "a selection (sql, strict, next, any, …)",
    "ACTION": "create, delete, set, link or unlink",
    "IS_WHAT": "null, true or false",
    "LIKE": "like, ilike or rlike",
    "TREE": "a tree pattern (<< … >>)",
    "QUERY_CHANGE": "found, updated or lost",
    "ROUNDS": "consecutive, relaxed or combinations",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "DOT": "'.'",
    "EQ": "'='",
    "LT": "'<'",
    "GT": "'>'",
    "VBAR": "'|'",
    "AMPERSAND": "'&'",
    "PLUS": "'+'",
    "STAR": "'*'",
    "MINUS": "'-'",
    "COLON": "':'",
    "_EVENTS": "'events'",
    "SKIP_NONE": "'none'",
    "TIMESTAMP": "a timestamp",
    "DATE": "a date",
    "_OR_FIND": "'or find'",
    "DIRECTION": "'ascending' or 'descending'",
    "$END": "the end of the text",
}
_ATOMS = frozenset(
    (
        "NAME", "QUOTED", "INTEGER", "DECIMAL", "DOUBLE", "STRING", "PARAM", "TRUE", "FALSE", "NULL", "_CASE",
        "_CAST", "LPAR", "MINUS",
    )
)  # fmt: skip


def explain_unexpected(error: UnexpectedInput, text: str, start: str) -> PatternSyntaxError:
    """Convert a grammar error to a pattern error."""
    if isinstance(error, UnexpectedCharacters):
        return _bad_character(error, text)
    if isinstance(error, UnexpectedToken):
        return _bad_token(error, text, start)
    return PatternSyntaxError("Unexpected end of text.", source=text)  # pragma: no cover


_FOREIGN_SIGNS = (
    ("like~", "Write name ilike 'adm%' to ignore case, with % in place of *."),
    ("==", "Use a single = to compare."),
    ("&&", "Use 'and' between conditions, & between steps in any order."),
    ("=>", "Use -> for 'followed by', >= for 'at least'."),
    ('"', "Write strings in single quotes: 'like this'. Write names with special characters in backticks."),
    ("\u2018", "Write strings in straight single quotes: 'like this'."),
    ("\u2019", "Write strings in straight single quotes: 'like this'."),
    ("\u201c", "Write strings in straight single quotes: 'like this'."),
    (";", "Remove the semicolon: clauses and patterns need no separator."),
    ("!", "Use 'not Logout' for a negated step, 'not (…)' for a condition, <> for 'not equal'."),
    ("#", "Begin a comment with --."),
    ("//", "Write a tree pattern between << and >>: Orders << //order->o >>."),
    ("→", "Use -> for 'followed by'."),
    ("≠", "Use <>."),
    ("≤", "Use <=."),
    ("≥", "Use >=."),
    ("~", "Use -> for 'followed by', ->> for 'followed by any'."),
    ("$", "Write a parameter of the pattern as :name."),
    ("@", "Write an attribute of a document inside a tree pattern << … >>."),
)
_UNCLOSED_QUOTE = "Add a closing quote ('). Write a quote inside a string twice: 'it''s'."
_UNCLOSED_SIGNS = (
    ("'", "Unclosed quote.", _UNCLOSED_QUOTE),
    ("`", "Unclosed backtick.", "Close it with a backtick: `client ip`."),
    ("/*", "Unclosed comment.", "Close it with */."),
    ("<<", "Unclosed tree pattern.", "Close it with >>."),
)


def _bad_character(error: UnexpectedCharacters, text: str) -> PatternSyntaxError:
    at = error.pos_in_stream or 0
    sign = _foreign_sign(text, at)
    if sign is None and text[at : at + 1].isalpha():
        sign = _odd_name(text, at)
    if sign is not None:
        return _error(sign, text, "", at, 1)
    rest = text[at:]
    shown = rest[:1] if rest[:1].isprintable() else f"U+{ord(rest[:1]):04X}"
    hint = f"Expected {_listing(error.allowed or ())}."
    return PatternSyntaxError(f"Unexpected {shown!r}.", span=span_at(text, at), source=text, hint=_clip(hint))


def _error(slip: Slip, text: str, message: str, at: int, width: int) -> PatternSyntaxError:
    span = span_at(text, at, width) if slip.start is None else span_at(text, slip.start, slip.width)
    return PatternSyntaxError(slip.message or message, span=span, source=text, hint=slip.hint, nearest=slip.nearest)


def _foreign_sign(text: str, at: int) -> Slip | None:
    """Diagnose an operator of another language that starts or ends at this offset."""
    for sign, message, hint in _UNCLOSED_SIGNS:
        if text.startswith(sign, at):
            return Slip(hint, message, at, len(sign))
    if text.startswith("@", at):
        odd = _odd_name(text, at)
        if odd is not None:
            return odd
    line = text.rfind("\n", 0, at) + 1
    if text.startswith("//", at) and not text[line:at].strip():
        return Slip("Begin a comment with --.", "Unexpected '//'.", at, 2)
    for sign, hint in _FOREIGN_SIGNS:
        for start in range(at - len(sign) + 1, at + 1):
            if start >= 0 and text.startswith(sign, start):
                return Slip(hint, f"Unexpected '{sign}'.", start, len(sign))
    return None


def _odd_name(text: str, at: int) -> Slip | None:
    """Hint at backticks if the character at this offset is at the start or in the middle of a word."""
    start = _WORD_BEFORE.search(text[max(0, at - _LONG_NAME) : at])
    rest = _WORD_AFTER.match(text, at, at + _LONG_NAME)
    if rest is None:
        return None
    name = (start[0] if start else "") + rest[0]
    hint = f"Write a name with special characters in backticks: `{name}`."
    if name[0].isdigit():
        hint = f"Write a name that begins with a digit in backticks: `{name}`."
    message = f"Invalid name '{name}'."
    return Slip(hint, message, at + len(rest[0]) - len(name), len(name))


_LONG_NAME = 60
_WORD_BEFORE = re.compile(r"\w++\Z")
_WORD_AFTER = re.compile(r"(?:[.:/@-]?\w++)++")


def _bad_token(error: UnexpectedToken, text: str, start: str) -> PatternSyntaxError:
    token = error.token
    at_end = token.type == "$END"
    at = len(text.rstrip()) if at_end else (token.start_pos or 0)
    spot = Spot(text, at, token, frozenset(error.accepts or error.expected or ()))
    width = 1 if at_end else max(1, len(token))
    message = "Unexpected end of text." if at_end else f"Unexpected {_shown(token)}."
    slip = (model_slip(spot) or _anywhere(spot)) if start == "model_file" and not in_pattern(spot) else _slip(spot)
    if slip is None and token.type == "NAME" and spot.expected & _CLAUSE_TERMINALS:
        near = _nearest_clause(str(token))
        slip = None if near is None else Slip(None, f"Unknown clause {_shown(token)}.", nearest=near)
    slip = slip or _bracket(spot) or Slip(_clip(f"Expected {_listing(spot.expected)}."))
    return _error(slip, text, message, at, width)


def _shown(token: Token) -> str:
    text = str(token) if len(token) <= 40 else f"{token[:37]}…"
    return text if text.startswith(("'", "`")) else f"'{text}'"


def _bracket(spot: Spot) -> Slip | None:
    if spot.word in _OPENS:
        opened = spot.opened()
        if opened is None:
            return Slip(f"Remove it, or write {_OPENS[spot.word]} before it.", f"Unmatched '{spot.word}'.")
        bracket = spot.text[opened]
        if bracket != _OPENS[spot.word]:
            return Slip(f"Close it with {_CLOSES[bracket]}.", f"Unclosed '{bracket}'.", opened)
        return None
    if spot.at_end or spot.expected & {"RPAR", "RSQB"}:
        opened = unclosed(spot.text)
        if opened is not None:
            bracket = spot.text[opened]
            return Slip(f"Close it with {_CLOSES[bracket]}.", f"Unclosed '{bracket}'.", opened)
    return None


_OPENS = {")": "(", "]": "[", "}": "{"}
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_UNITS = ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days", "weeks")
_SHORT_UNITS = {
    "us": "microseconds", "ms": "milliseconds", "s": "seconds", "sec": "seconds", "secs": "seconds",
    "m": "minutes", "min": "minutes", "mins": "minutes", "h": "hours", "hr": "hours", "hrs": "hours",
    "d": "days", "w": "weeks",
}  # fmt: skip
_UNEQUAL_UNITS = {"month": "30 days", "quarter": "90 days", "year": "365 days"}
_ELEMENT_END = re.compile(r"[\w`\])}+*?>]\Z")
_OTHER_LANGUAGES = {
    "group": "Partition events by a column with: partition by user.",
    "having": "Write conditions on aggregates in 'where': where count(t) > 3.",
    "select": "List output columns after 'return': return a.user, t.amount.",
    "measures": "List output columns after 'return': return a.user, t.amount.",
    "define": "Write conditions in square brackets after the step: Transfer t [amount > 100].",
    "order": "Sort the matches where you use them: they are a table. Events are ordered by their time.",
    "limit": "Limit the matches where you use them: they are a table.",
    "insert": "Write the matches where you use them: a pattern returns a table.",
    "with": "Limit the duration of a match with: within 10 minutes.",
    "maxspan": "Limit the duration of a match with: within 10 minutes.",
    "from": "Remove 'from': pass the event stream when you run the pattern.",
    "one": "Remove 'one row per match': each match is one row. 'return evidence' adds its events.",
    "all": "Remove 'all rows per match': each match is one row. 'return evidence' adds its events.",
    "row": "Remove 'row': each row of the input is an event.",
    "rows": "Write a window by count as: within 20 events.",
    "subset": "Name each step and use its name: unions of steps are unsupported.",
}
_BETWEEN_STEPS = {
    "and": "Join steps in any order with &: Login & Transfer.",
    "or": "Join alternative steps with |: Login | Signup.",
    "notfollowedby": "Write 'not followed by' as -> not: Login a -> not Logout.",
    "notnext": "Test the next event: Login a, any x [type(x) <> 'Logout']; '-> not Logout' tests all events up to the next step.",
    "followedby": "Write 'followed by' as ->.",
    "followedbyany": "Write 'followed by any' as ->>.",
    "then": "Write 'followed by' as ->.",
    "followed": "Write 'followed by' as ->.",
    "next": "Write 'next' as a comma: Login a, Transfer t.",
    "if": "Write a condition in square brackets after the step: Login a [ip = '10.0.0.1'].",
    "when": "Write conditions in 'where', or in square brackets after the step.",
    "as": "Write a step's name right after its type, without 'as': Login a.",
    "=": "Write a step's name after its type: Login a, not a=Login.",
    "=>": "Write 'followed by' as ->.",
    "(": "Write a condition in square brackets: Transfer t [amount > 100].",
    "+": "Write a quantifier after the event type, before the step's name: Transfer+ t.",
    "*": "Write a quantifier after the event type, before the step's name: Transfer* t.",
    "?": "Write a quantifier after the event type, before the step's name: Transfer? t.",
    "{": "Write a quantifier after the event type, before the step's name: Transfer{2,5} t.",
    "<": "Write the bounds of a repetition in braces: Transfer{2,5} t.",
}
_ARROW_HINT = (
    "Write an arrow between two steps: -> (followedBy: the first later match), ->> (followedByAny: every later match) "
    "or a comma (next: only the next event)."
)
_SKIP_HINT = "Use after match skip none, to next, past last, to first STEP, or to last STEP."
_SEQUENCE_HINT = "Join steps with arrows: match Login a -> Transfer t. Then write: partition by user."
_STAR_HINT = "List the columns: return a.user, t.amount. 'return evidence' returns the events."
_SELECTIONS = (
    "sql", "strict", "next", "any", "followed by", "successor", "chronicle", "recent", "continuous",
    "cumulative", "immediate", "strict immediate",
)  # fmt: skip
_NAMED_SELECTIONS = {
    "skiptillany": "any", "skiptillnext": "next", "strictcontiguity": "strict", "relaxedcontiguity": "next",
    "nondeterministicrelaxed": "any", "contiguity": "strict",
}  # fmt: skip
"""Names of selections in the literature and other engines, lower case and letters only."""
_NAMED_SKIPS = {"noskip": "none", "skiptonext": "to next", "skippastlastevent": "past last"}
_LIKE_WORDS = frozenset(("regexp", "regex", "regexp_like", "glob", ":"))
_STEP_BEGINS = r"(?:\b(?:match|not|until)\s|->>?|[,|&(])\s*"
_CLAUSE_FIRSTS = {clause.split()[0]: clause for clause in CLAUSE_WORDS}
_OPEN_LINE = rf"(->>?|,|\||&|\band|\bor)[ \t\r]*\n\s*(?:{'|'.join(_CLAUSE_FIRSTS)})\b[^\n]*"
"""A line that ends in an operator, followed by a line that begins with a clause."""


def _slip(spot: Spot) -> Slip | None:
    """Diagnose a common mistake, or return None."""
    if spot.expected == {"_PATTERN"}:
        return _no_head(spot)
    for recognise in _RECOGNISERS:
        found = recognise(spot)
        if found is not None:
            return found
    return None


def _anywhere(spot: Spot) -> Slip | None:
    """Diagnose a mistake in an expression, which model files have too."""
    return _spilt(spot) or _missing(spot) or _sign(spot) or _about_values(spot)


def _no_head(spot: Spot) -> Slip:
    hint = "Begin the text with: pattern NAME, followed by its clauses."
    if not spot.text.strip():
        return Slip(hint, "The text is empty.")
    if nearest(spot.word, ["pattern"]) is not None:
        return Slip(None, nearest="pattern")
    return Slip(hint, f"Expected 'pattern' at the beginning of the text, got {_shown(spot.token)}.")


def _spilt(spot: Spot) -> Slip | None:
    """An unfinished operator or quote on an earlier line that consumed the text up to here."""
    joint = spot.behind(_OPEN_LINE)
    if joint is not None:
        noun = "step" if joint[1] in ("->", "->>", "|", "&") else "item" if joint[1] == "," else "condition"
        return _missing_after(noun, joint)
    if spot.before.endswith("'"):
        # The quote may be in a comment or a quoted name; then no string ends here.
        quoted = [m for m in LEXEME.finditer(spot.before) if m.group().startswith("'")]
        last = quoted[-1] if quoted else None
        if last is not None and "\n" in last.group():
            return Slip(_UNCLOSED_QUOTE, "Unclosed quote.", last.start())
    if spot.text[: spot.at].endswith("'") and spot.token.type in ("NAME", "INTEGER"):
        hint = "Write a quote inside a string twice: 'it''s'."
        return Slip(hint, "The string ends at this quote.", spot.at - 1)
    return None


def _missing(spot: Spot) -> Slip | None:
    """An operator or a clause keyword at the end of the text, before a closing bracket or before the next clause."""
    if not (spot.at_end or spot.word in _OPENS or spot.word in _CLAUSE_FIRSTS):
        return None
    joint = spot.behind(_OPERATOR)
    if joint is None or joint[1] in _OPENS.values():
        return None
    if "ANY" in spot.expected:
        return _missing_after("step", joint)
    if len(spot.expected & _ATOMS) < 6:
        return None
    word = joint[1].lower()
    return _missing_after(
        {",": "item", "where": "condition", "and": "condition", "or": "condition"}.get(word, "value"), joint
    )


_OPERATOR = r"(->>?|\|\||<=>|<>|<=|>=|[|&,<>=+*/%-]|\b(?:and|or|not|like|between|where|match|return))"
"""An arrow, operator or keyword that needs something after it."""


def _missing_after(noun: str, joint: re.Match[str]) -> Slip:
    sign = joint[1]
    hint = "Add the next item, or remove the comma." if sign == "," else f"Add the {noun}, or remove '{sign}'."
    return Slip(hint, f"Missing {noun} after '{sign}'.", joint.start(1), len(sign))


def _misread(spot: Spot) -> Slip | None:
    """A clause keyword that was parsed as a name, because a name is valid there."""
    head = spot.behind(r"\bpattern\s+(\w+)")
    if head is not None and head[1].lower() in _CLAUSE_FIRSTS:
        hint = "Add a name: pattern fast_transfer."
        return Slip(hint, "Missing pattern name.", head.start(1), len(head[1]))
    line = spot.before.rfind("\n") + 1
    first = re.match(r"[ \t]*([A-Za-z_]+)", spot.text[line : spot.at])
    near = None if first is None or "ARROW" not in spot.expected else _nearest_clause(first[1])
    if first is None or near is None:
        return None
    return Slip(None, f"Unknown clause '{first[1]}'.", line + first.start(1), len(first[1]), near)


def _sign(spot: Spot) -> Slip | None:
    is_token = spot.at_end or spot.token.type in ("STRING", "QUOTED", "TREE")
    return None if is_token else _foreign_sign(spot.text, spot.at)


def _about_time(spot: Spot) -> Slip | None:
    parameter = spot.behind(r"\b(within|for|after|suppress|stays)\s+:(\w+)")
    if parameter is not None and (spot.word in _SHORT_UNITS or nearest(spot.word, _UNITS)):
        name = parameter[2][:_LONG_NAME]
        declared = f"Declare the parameter with its unit, {name} duration = 10 minutes"
        return Slip(f"{declared}, and write {parameter[1]} :{name}.")
    if "FOREVER" in spot.expected:
        return _no_window(spot)
    number = spot.behind(r"[\d.]+")
    if "UNIT" not in spot.expected or number is None:
        return None
    word = re.match(r"[A-Za-z]+", spot.text[spot.at :])
    if spot.at_end or word is None or word[0].lower() in _CLAUSE_FIRSTS:
        if "_EVENTS" not in spot.expected and spot.expected & {"_AND", "RSQB", "RPAR", "COMMA"}:
            return None
        window = f", {number[0]} events" if "_EVENTS" in spot.expected else ""
        hint = f"Add a unit: {number[0]} minutes, {number[0]} hours{window}."
        return Slip(hint, f"Missing unit after {number[0]}.", number.start(), len(number[0]))
    written = word[0].lower()
    for unit, length in _UNEQUAL_UNITS.items():
        if written in (unit, f"{unit}s"):
            return Slip(f"Use a fixed duration such as {length}: the length of a {unit} varies.")
    found = _SHORT_UNITS.get(written) or nearest(written, _UNITS)
    if found is None and "_AND" in spot.expected:
        return None
    return Slip(f"Available: {', '.join(_UNITS)}.", f"Unknown unit {_shown(spot.token)}.", nearest=found)


def _no_window(spot: Spot) -> Slip:
    """A window in quotes, as an interval of SQL, or below zero."""
    length = rf"({_NUMBER})\s*([A-Za-z]{{1,20}})"
    for form, message in (
        (rf"'\s*{length}\s*'", "Remove the quotes"),
        (rf"interval\s+'?\s*({_NUMBER})\s*'?\s*([A-Za-z]{{1,20}})", "Write the window without 'interval'"),
        (rf"-\s*{length}", "A window is positive"),
    ):
        found = spot.ahead(form)
        unit = None if found is None else _SHORT_UNITS.get(found[2].lower()) or nearest(found[2].lower(), _UNITS)
        if found is not None and unit is not None:
            return Slip(f"{message}: within {found[1]} {unit}.")
    return Slip("Write a number and a unit: within 10 minutes, within 20 events, or within forever.")


_NUMBER = r"\d{1,20}(?:\.\d{1,20})?"


def _about_steps(spot: Spot) -> Slip | None:
    if "ARROW" not in spot.expected:
        return None
    joined = spot.behind(r"\b(notFollowedBy|notNext|followedBy|followedByAny)")
    if joined is not None and spot.token.type == "NAME":
        hint = _BETWEEN_STEPS[joined[1].lower()]
        return Slip(hint, f"Unexpected '{joined[1]}'.", joined.start(1), len(joined[1]))
    every = spot.behind(r"\b(every)\s+\w+")
    if every is not None:
        hint = "Remove 'every': each event that matches the first step starts a partial match."
        return Slip(hint, f"Unexpected '{every[1]}'.", every.start(1), len(every[1]))
    sequence = spot.behind(r"\bmatch\s+(sequence|seq|sample)(\s+by)?")
    if sequence is not None:
        message = f"Unexpected '{sequence[1]}'."
        return Slip(_SEQUENCE_HINT, message, sequence.start(1), len(sequence[1]))
    for table in (_BETWEEN_STEPS, _OTHER_LANGUAGES):
        if spot.word in table:
            return Slip(table[spot.word])
    if spot.token.type != "NAME" or _nearest_clause(spot.word) is not None:
        return None
    if spot.before.endswith("]"):
        return Slip("Write the step's name before its condition: Login a [ip = '10.0.0.1'].")
    return Slip(_ARROW_HINT + _spaced_type(spot)) if _ELEMENT_END.search(spot.before[-1:]) else None


def _spaced_type(spot: Spot) -> str:
    """Return an extra hint if two words and a name without a further step may be a type with a space."""
    words = spot.behind(rf"{_STEP_BEGINS}([A-Za-z_]\w*[ \t]+[A-Za-z_]\w+)")
    further = spot.ahead(r"\w+[ \t]+(\w+)")
    if words is None or (further is not None and further[1].lower() not in _CLAUSE_FIRSTS):
        return ""
    return f" Write a type name with a space in backticks: `{words[1][:_LONG_NAME]}`."


def _about_values(spot: Spot) -> Slip | None:
    word, expected = spot.word, spot.expected
    if word == ">" and spot.text[: spot.at].endswith("-"):
        return _arrow_in_condition(spot)
    if spot.token.type in ("COMPARE", "LT", "GT", "EQ") and "_AND" in expected:
        joined = spot.behind(r"(\|\|)[^\[\]()|]*")
        if joined is not None:
            hint = "Use 'or' between conditions."
            return Slip(hint, "'||' concatenates strings; it is not 'or'.", joined.start(), 2)
        return Slip("Write a < b and b < c, or b between a and c: comparisons do not chain.")
    if word in ("*", ")") and spot.behind(r"\bcount\s*\("):
        return Slip("Name the step to count: count(t) is the number of events of step t.")
    if word == "*" and spot.behind(r"\breturn(?:\s[^\[\]]*[.,])?"):
        return Slip(_STAR_HINT)
    if word in ("[", "{") and spot.behind(r"\bin"):
        return Slip("Write a list in parentheses: x in (1, 2, 3).")
    if "IS_WHAT" in expected:
        return Slip("Use 'is' with null, true or false; use = to compare values.")
    cast = spot.behind(r"\bcast\s*\(([^()]*)") if "_AS" in expected else None
    if cast is not None:
        type_ = spot.ahead(r",\s*'?([A-Za-z]{1,20})")
        value = cast[1].strip() if type_ and 0 < len(cast[1].strip()) <= _LONG_NAME else "x"
        return Slip(f"Write cast({value} as {type_[1] if type_ else 'string'}).")
    if "_END" in expected:
        hint = "Close it with 'end': case when x > 5 then 'big' else 'small' end."
        return Slip(hint, f"Unexpected {_shown(spot.token)} in a case: missing 'end'.")
    head = spot.behind(r"\bpattern\s+\w+\s*\((?:[^()]*,)?\s*(\w+)") if word in ("=", ")", ",") else None
    if head is not None:
        hint = f"Add a type to the parameter: {head[1][:_LONG_NAME]} double."
        if spot.ahead(r"\)\s*=\s*\{"):
            hint += " To query a graph, write: query NAME(a) find a: User."
        return Slip(hint, f"Missing type of parameter '{head[1][:_LONG_NAME]}'.", head.start(1), len(head[1]))
    if spot.before.endswith(",") and "ANY" not in expected:
        start = len(spot.before) - 1
        return Slip("Add the next item, or remove the comma.", "Missing item after ','.", start)
    return None


def _arrow_in_condition(spot: Spot) -> Slip:
    opened = spot.opened()
    if opened is not None and spot.text[opened] == "[":
        return Slip("Close it with ] before the arrow.", "Unclosed '['.", opened)
    hint = "Write the condition of a step in square brackets after it: Login a [ip = 'x'] -> Transfer t."
    return Slip(hint, "Unexpected arrow in a condition.", spot.at - 1, 2)


def _about_clauses(spot: Spot) -> Slip | None:
    expected = spot.expected
    if spot.before.endswith(("->", "->>")) and "ANY" in expected:
        return Slip("Add a step: an arrow needs one on both sides.")
    skip = spot.behind(r"\bskip\s+(past\s+last|to\s+next)")
    if spot.word in ("row", "event") and skip is not None:
        return Slip(f"Remove '{spot.word}': after match skip {skip[1]}.")
    if "SKIP_NONE" in expected or {"_FIRST", "_LAST"} <= expected:
        return Slip(_SKIP_HINT)
    if "SELECTION" in expected or spot.behind(r"\bselection\s+strict"):
        known = _known_selection(spot)
        if known is not None:
            return known
    if "SELECTION" in expected:
        message = None if spot.at_end else f"Unknown selection {_shown(spot.token)}."
        hint = f"Available: {', '.join(_SELECTIONS)}."
        return Slip(hint, message, nearest=nearest(spot.word, _SELECTIONS))
    if "RBRACE" in expected:
        return Slip("Write the bounds of a repetition as {2,5}, {2,}, {,5} or {3}.")
    if expected & _CLAUSE_TERMINALS and spot.word in _OTHER_LANGUAGES:
        return Slip(_OTHER_LANGUAGES[spot.word])
    if spot.behind(r"\bby") and "NAME" in expected:
        return Slip("Name one or more columns: partition by user, region.")
    return None


def _known_selection(spot: Spot) -> Slip | None:
    written = spot.ahead(r"-?[A-Za-z_][A-Za-z_ \t-]*")
    if written is None:
        return None
    plain = re.sub(r"[^a-z]", "", written[0].lower())
    for name, selection in _NAMED_SELECTIONS.items():
        if plain.startswith(name):
            return Slip(f"Use selection {selection}.")
    return None


def _about_names(spot: Spot) -> Slip | None:
    """A name with special characters, or a string or number in place of an event type."""
    kind = spot.token.type
    if "TREE" in spot.expected and re.match(r"[.:/-]", spot.word) and spot.text[spot.at - 1].isalnum():
        return _odd_name(spot.text, spot.at)
    if "QUERY_CHANGE" not in spot.expected:
        return None
    if kind in ("INTEGER", "DECIMAL", "DOUBLE"):
        return _odd_name(spot.text, spot.at)
    return Slip(_unquoted(str(spot.token)[1:-1])) if kind == "STRING" else None


def _unquoted(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        return f"Write a name without quotes: {name[:_LONG_NAME]}."
    shown = name if 0 < len(name) <= _LONG_NAME and name.isprintable() and "`" not in name else "client ip"
    return f"Write a name without quotes; use backticks for special characters: `{shown}`."


def _about_foreign_clauses(spot: Spot) -> Slip | None:
    """A clause of another language after a step or the steps; its first word may have been parsed as a name."""
    if not spot.expected & _CLAUSE_TERMINALS:
        return None
    return _runs(spot) or _by(spot) or _skip(spot) or _unquoted_word(spot)


def _runs(spot: Spot) -> Slip | None:
    runs = spot.ahead(r"(?:with\s+)?runs\s*=\s*(\d{1,9})")
    if runs is None:
        return None
    step = spot.behind(rf"{_STEP_BEGINS}([A-Za-z_]\w*)(?:\s+\w+)?")
    name = "Transfer" if step is None else step[1][:_LONG_NAME]
    return Slip(f"Write a repetition after the event type: {name}{{{runs[1]}}}.")


def _by(spot: Spot) -> Slip | None:
    read = spot.behind(r"\bby") if "ARROW" in spot.expected else None
    column = spot.ahead(r"by\b\s*([\w.]*)") if spot.word == "by" else spot.ahead(r"([\w.]*)") if read else None
    if column is None or spot.behind(r"\b(?:order|(?:sequence|seq|sample)(?:\s+by)?)"):
        return None
    hint = f"Partition events by a column with: partition by {column[1][:_LONG_NAME] or 'user'}."
    return Slip(hint) if read is None else Slip(hint, "Unexpected 'by'.", read.start(), 2)


def _skip(spot: Spot) -> Slip | None:
    if spot.word in _NAMED_SKIPS:
        return Slip(f"Write the skip strategy as: after match skip {_NAMED_SKIPS[spot.word]}.")
    read = spot.behind(r"\bskip") if "ARROW" in spot.expected else None
    if spot.word != "skip" and read is None:
        return None
    strategy = spot.ahead(r"(?:skip\s+)?(none|to\s+next|past\s+last|to\s+(?:first|last)\s+\w{1,60})\b")
    hint = f"Write the skip strategy as: after match skip {strategy[1] if strategy else 'past last'}."
    return Slip(hint) if read is None else Slip(hint, "Unexpected 'skip'.", read.start(), 4)


def _unquoted_word(spot: Spot) -> Slip | None:
    """A word with special characters that needs quotes: tags T1059.001."""
    begun = spot.behind(r"\b(severity|owner|tags)\s+(?:[^\n]*,\s*)?(\w+)")
    ended = spot.ahead(r"[.:/-]\w[\w.:/-]*")
    if begun is None or ended is None or begun.end() != spot.at:
        return None
    return _quote_it(begun[1], begun[2] + ended[0])


def _about_labels(spot: Spot) -> Slip | None:
    """A number in place of a name or string after ``severity``, ``owner`` or ``tags``."""
    if not spot.expected <= {"NAME", "QUOTED", "STRING"}:
        return None
    clause = spot.behind(r"\b(severity|owner|tags)(?:\s[^\n]*,)?")
    value = spot.ahead(r"\d[\w.:/-]*")
    return None if clause is None or value is None else _quote_it(clause[1], value[0])


def _quote_it(clause: str, word: str) -> Slip:
    return Slip(f"Quote a value that is not a plain name: {clause.lower()} '{word[:_LONG_NAME]}'.")


def _colon(spot: Spot) -> Slip | None:
    """An equality of KQL and EQL: ``process.name : 'cmd.exe'``."""
    left = spot.behind(r"(?<![\w.])[A-Za-z_][\w.]{0,40}")
    if "LIKE" not in spot.expected or spot.word != ":" or left is None:
        return None
    value = spot.ahead(r":\s*('[^'\n*]{0,60}')")
    text = value[1] if value else "'a'"
    return Slip(f"Write {left[0]} = {text}, or to ignore case, {left[0]} ilike {text}.")


def _about_conditions(spot: Spot) -> Slip | None:
    """String operators of other languages, names as bounds, conditions in parentheses after the type."""
    if "LIKE" in spot.expected and spot.word in _LIKE_WORDS:
        left = spot.behind(r"(?<![\w.])[A-Za-z_][\w.]{0,40}")
        x = "x" if left is None else left[0]
        return Slip(f"Use {x} like 'a%', {x} ilike 'a%' to ignore case, or {x} rlike '^a' for a regular expression.")
    if spot.token.type in ("PARAM", "NAME") and spot.behind(r"\{[\d,\s]*"):
        return Slip("Use numbers as the bounds of a repetition: {2,5}, {2,}, {,5} or {3}." + _counted(spot))
    bracketed = "_AS" in spot.expected and spot.expected <= {"_AS", "DOT"}
    if not bracketed or spot.at_end or spot.token.type in ("RPAR", "COMMA"):
        return None
    begun = spot.behind(r"\b([A-Za-z_]\w{0,40})\s*\(([^()\n]{1,60})")
    ended = spot.ahead(r"[^()\n]{1,60}(?=\)(?:\s*([A-Za-z_]\w{0,20}))?)")
    shown = "Transfer t [amount > 100]"
    if begun is not None and ended is not None:
        name = ended[1] if ended[1] and ended[1].lower() not in _CLAUSE_FIRSTS else begun[1][0].lower()
        shown = f"{begun[1]} {name} [{begun[2].strip()} {ended[0].strip()}]"
    return Slip(f"Write conditions in square brackets after the step: {shown}.")


def _counted(spot: Spot) -> str:
    """Return an extra hint for a parameter as lower bound; as upper bound ``count`` has another meaning."""
    step = spot.behind(r"(?:\b([A-Za-z_]\w{0,40}))?\s*\{\s*")
    if spot.token.type != "PARAM" or step is None:
        return ""
    number = str(spot.token)[:_LONG_NAME]
    return f" For at least {number}, write {step[1] or 'Login'}+ a … where count(a) >= {number}."


_RECOGNISERS = (
    _spilt, _misread, _missing, _sign, _about_time, _about_names, _about_foreign_clauses, _about_labels, _about_steps,
    _colon, _about_conditions, _about_values, _about_clauses,
)  # fmt: skip


def _nearest_clause(word: str) -> str | None:
    """Return the clause that a misspelled word probably begins; step names rarely resemble one this closely."""
    found = difflib.get_close_matches(word.lower()[:40], _CLAUSE_FIRSTS, n=1, cutoff=0.75)
    return _CLAUSE_FIRSTS[found[0]] if found and word.lower() not in _CLAUSE_FIRSTS else None


def _listing(terminals: Iterable[str]) -> str:
    names = set(terminals)
    parts: list[str] = []
    if len(names & _ATOMS) >= 6:
        parts.append("a value or an expression")
        names -= _ATOMS | {"TIMESTAMP", "DATE"}
    if len(names & _CLAUSE_TERMINALS) >= 8:
        parts.append("a clause (match, where, within, partition by, return, …)")
        names -= _CLAUSE_TERMINALS
    words = sorted({_WORDS.get(n, f"'{n.strip('_').lower()}'") for n in names} - {"the end of the text"})
    parts.extend(words)
    if "$END" in names:
        parts.append("the end of the text")
    return ", ".join(parts[:-1]) + (" or " if len(parts) > 1 else "") + parts[-1] if parts else "nothing more"


def _clip(hint: str) -> str:
    return hint if len(hint) <= 240 else hint[:237] + "…"
