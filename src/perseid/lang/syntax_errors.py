"""What to say when a text is not a pattern: the parser's refusal in words people use.

The parser knows which token it met and which it could have taken. People need more: what they probably
meant. Known slips (other languages' signs and words, missing units, unclosed brackets) come first, then the
nearest clause word, then what could have stood there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from perseid.errors import LimitError, PatternSyntaxError, nearest
from perseid.lang import limits
from perseid.lang.expressions import Span

CLAUSE_WORDS = (
    "match", "where", "within", "holds for", "partition by", "selection", "after match skip", "report timeouts",
    "return", "suppress", "severity", "owner", "tags", "description",
)  # fmt: skip

_CLAUSE_TERMINALS = frozenset(
    "_MATCH _WHERE _WITHIN _HOLDS _PARTITION _SELECTION _AFTER _REPORT _RETURN _SUPPRESS _SEVERITY _OWNER _TAGS "
    "_DESCRIPTION".split()
)
_WORDS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "INTEGER": "a number",
    "DECIMAL": "a number",
    "DOUBLE": "a number",
    "STRING": "a text in single quotes",
    "PARAM": "a parameter (:name)",
    "UNIT": "a unit of time (seconds, minutes, hours, …)",
    "ARROW": "an arrow (-> or ->> or ,)",
    "COMPARE": "a comparison (= <> < <= > >=)",
    "SUM_OP": "an operator",
    "PRODUCT_OP": "an operator",
    "RELUCTANT": "'?'",
    "SELECTION": "a selection (sql, strict, next, any, followed by, successor, chronicle, recent, continuous, "
    "cumulative, immediate, strict immediate)",
    "ACTION": "create, delete, set, link or unlink",
    "IS_WHAT": "null, true or false",
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
    "$END": "the end of the text",
}
_ATOMS = frozenset("NAME QUOTED INTEGER DECIMAL DOUBLE STRING PARAM TRUE FALSE NULL _CASE _CAST LPAR MINUS".split())


def scan_limits(text: str) -> None:
    """Refuse what is too long or too deeply bracketed before any parser sees it; one pass, no recursion."""
    if len(text) > limits.MAX_TEXT:
        raise LimitError(f"This text has more than {limits.MAX_TEXT:,} characters.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        # Without the text: what cannot be encoded cannot be shown either.
        raise PatternSyntaxError(
            f"U+{half:04X} is half a character and no text.", span=_span_at(text, error.start)
        ) from None
    stack: list[int] = []
    count = 0
    for found in _LEXEME.finditer(text):
        lexeme = found.group()
        if lexeme in "([{":
            stack.append(found.start())
            if len(stack) > limits.MAX_NESTING:
                raise _too_deep(text, stack[limits.MAX_NESTING])
        elif lexeme in ")]}":
            if stack:
                stack.pop()
        elif lexeme.isspace() or lexeme.startswith(("--", "/*")):
            continue
        elif len(lexeme) > 1 and (lexeme[0] == "-" or lexeme[:3].lower() == "not"):
            # A run of prefix operators nests as brackets do.
            if len(lexeme.split()) > limits.MAX_NESTING:
                raise _too_deep(text, found.start())
        elif lexeme.lower() == "pattern":
            count = 0
        count += 1
        if count > limits.MAX_TOKENS:
            raise LimitError(
                f"A pattern has more than {limits.MAX_TOKENS:,} words and signs.",
                span=_span_at(text, found.start()),
                source=text,
                hint="A long list of values is better bound at use: x in :values.",
            )


def _too_deep(text: str, start: int) -> LimitError:
    return LimitError(
        f"Brackets are nested more than {limits.MAX_NESTING} deep.", span=_span_at(text, start), source=text
    )


# What is never closed reaches to the end: trying again at each later quote would take the square of the time.
_LEXEME = re.compile(
    r"""
      '[^']*+ (?: '' [^']*+ )*+ (?: ' | \Z )
    | ` (?: [^`]++ | `` )*+ (?: ` | \Z )
    | -- [^\n]*+
    | /\* (?: [^*]++ | \*(?!/) )*+ (?: \*/ | \Z )
    | << (?: '[^']*+ (?: ' | \Z ) | "[^"]*+ (?: " | \Z ) | [^>'"]++ | >(?!>) )*+ (?: >> | \Z )
    | (?: \bnot\b \s*+ ){2,}+
    | (?: - \s++ ){2,}+
    | \w++
    | \s++
    | .
    """,
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)


def _span_at(text: str, start: int, width: int = 1) -> Span:
    before = text[:start]
    return Span(start, start + width, before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)


def explain_unexpected(error: UnexpectedInput, text: str, start: str) -> PatternSyntaxError:
    """The parser's refusal as an error for people."""
    if isinstance(error, UnexpectedCharacters):
        return _bad_character(error, text)
    if isinstance(error, UnexpectedToken):
        return _bad_token(error, text, start)
    return PatternSyntaxError("This text ends too early.", source=text)  # pragma: no cover


_FOREIGN_SIGNS = (
    ("==", "Write a single = to compare."),
    ("&&", "Write 'and' between conditions, & between steps that may come in any order."),
    ("=>", "Write -> for 'followed by', >= for 'at least'."),
    ('"', "Texts stand in single quotes: 'like this'. A name with odd characters stands in backticks."),
    ("'", "This quote is never closed; a quote inside a text is written twice: 'it''s'."),
    ("`", "This backtick is never closed."),
    (";", "Clauses and patterns need nothing between them: leave the semicolon out."),
    ("!", "Write 'not Logout' for absence, 'not (…)' for a condition, <> for 'differs from'."),
    ("/*", "This comment is never closed with */."),
    ("#", "A comment starts with --."),
    ("//", "A tree pattern stands between << and >>: Orders << //order->o >>. A comment starts with --."),
    ("<<", "This tree pattern is never closed with >>."),
    ("→", "Write -> for 'followed by'."),
    ("≠", "Write <>."),
    ("≤", "Write <=."),
    ("≥", "Write >=."),
    ("~", "Write -> for 'followed by', ->> for 'followed by any'."),
    ("$", "A parameter of the pattern is written :name."),
    ("@", "An attribute of a document stands inside a tree pattern << … >>."),
)


def _bad_character(error: UnexpectedCharacters, text: str) -> PatternSyntaxError:
    at = error.pos_in_stream or 0
    rest = text[at:]
    for sign, hint in _FOREIGN_SIGNS:
        if rest.startswith(sign):
            return PatternSyntaxError(
                f"{sign} has no meaning here.", span=_span_at(text, at, len(sign)), source=text, hint=hint
            )
    shown = rest[:1] if rest[:1].isprintable() else f"U+{ord(rest[:1]):04X}"
    hint = f"Here could stand {_listing(error.allowed or ())}."
    return PatternSyntaxError(
        f"{shown!r} cannot stand here.", span=_span_at(text, at), source=text, hint=_clip(hint)
    )


def _bad_token(error: UnexpectedToken, text: str, start: str) -> PatternSyntaxError:
    token = error.token
    expected = frozenset(error.accepts or error.expected or ())
    at_end = token.type == "$END"
    at = len(text.rstrip()) if at_end else (token.start_pos or 0)
    span = _span_at(text, at, 1 if at_end else max(1, len(token)))
    before = text[:at].rstrip()
    message = "The text ends too early." if at_end else f"{_shown(token)} cannot stand here."
    hint = _slip(text, at, token, before, expected, at_end)
    near = None
    if hint is None and token.type == "NAME" and expected & _CLAUSE_TERMINALS:
        near = _nearest_clause(text, at)
        if near is not None:
            message = f"{_shown(token)} is not a clause."
    if hint is None and near is None:
        unclosed = _unclosed(text) if at_end or expected & {"RPAR", "RSQB"} else None
        if unclosed is not None:
            span = _span_at(text, unclosed)
            message = f"This {text[unclosed]} is never closed."
        hint = _clip(f"Here could stand {_listing(expected)}.") if unclosed is None else None
    return PatternSyntaxError(message, span=span, source=text, hint=hint, nearest=near)


def _shown(token: Token) -> str:
    text = str(token)
    return f"'{text}'" if len(text) <= 40 else f"'{text[:37]}…'"


_UNIT_SLIPS = re.compile(
    r"(?:ms|us|s|secs?|m|mins?|h|hrs?|d|w|mo|months?|years?|yrs?|y)\b", re.IGNORECASE
)
_ELEMENT_END = re.compile(r"[\w`\])}+*?>]\Z")


def _slip(text: str, at: int, token: Token, before: str, expected: frozenset[str], at_end: bool) -> str | None:
    """A known slip, if this looks like one."""
    word = "" if at_end else str(token).lower()
    rest = text[at:]
    previous = before.rsplit(None, 1)[-1].lower() if before else ""
    if not before:
        return "A text begins with: pattern NAME, and its clauses below it." if "_PATTERN" in expected else None
    if "UNIT" in expected and before[-1].isdigit():
        if _UNIT_SLIPS.match(rest) and not at_end:
            return "Units of time are words: milliseconds, seconds, minutes, hours, days, weeks."
        if "_EVENTS" in expected or previous.isdigit():
            return "Say what is counted: 10 minutes, 1.5 hours, 20 events."
    if word == "=" and before.endswith("="):
        return "Write a single = to compare."
    if before.endswith(("->", "->>", ",")) and (at_end or expected >= {"ANY"}):
        return "An arrow needs a step on both sides."
    in_match = "ARROW" in expected
    if in_match:
        steps = {
            "and": "Steps that may come in any order are joined by &: Login & Transfer.",
            "or": "Steps of which one is enough are joined by |: Login | Signup.",
            "then": "'Followed by' is written ->.",
            "followed": "'Followed by' is written ->.",
            "next": "'Immediately followed by' is written with a comma: A, B.",
            "from": "Which stream the events come from is said at use, not in the pattern.",
            "if": "A condition stands in square brackets behind the step: Login a [ip = '10.0.0.1'].",
            "having": "Conditions on aggregates stand in 'where' too.",
            "when": "Conditions stand in 'where', or in square brackets behind the step.",
        }
        if word in steps:
            return steps[word]
        if before.endswith("]") and token.type == "NAME" and _nearest_clause(text, at) is None:
            return "The step's name stands before its condition: Login a [ip = '10.0.0.1']."
        if token.type == "NAME" and re.search(r"\bevery\s+\w+\s*\Z", before, re.IGNORECASE):
            return "Leave 'every' out: each event that fits the first step starts an attempt."
        if token.type == "NAME" and _ELEMENT_END.search(before) and _nearest_clause(text, at) is None:
            return "Between two steps stands an arrow: -> (skip to the next that fits), ->> (any later), or , (the very next)."
    if word == "." and before.endswith("."):
        return "Bounds of a repetition are written {2,5}."
    if word in ("*", ")") and re.search(r"\bcount\s*\(\s*\Z", before, re.IGNORECASE):
        return "Say what is counted: count(t) is the number of events of step t."
    if word == "*" and previous == "return":
        return "Name what is returned, or leave 'return' out and read the bindings; 'return evidence' gives the events."
    if word in ("[", "{") and previous == "in":
        return "A list stands in parentheses: x in (1, 2, 3)."
    if token.type in ("COMPARE", "LT", "GT", "EQ") and "_AND" in expected:
        return "Comparisons do not chain: write a < b and b < c, or b between a and c."
    if "_FIRST" in expected and "_LAST" in expected:
        return "After a match: skip none, skip to next, skip past last, skip to first b, or skip to last b."
    if word in ("order", "group", "limit", "select", "insert"):
        return "That belongs to SQL, not to a pattern: matches are a table, order and group them there."
    if previous in ("by",) and "NAME" in expected:
        return "Name one or more columns: partition by user, region."
    return None


def _nearest_clause(text: str, at: int) -> str | None:
    rest = re.match(r"[A-Za-z_]+(?:[ \t]+[A-Za-z_]+){0,2}", text[at:])
    if rest is None:
        return None
    words = rest.group().lower().split()
    firsts = {clause.split()[0]: clause for clause in CLAUSE_WORDS}
    found = nearest(words[0], firsts)
    return firsts[found] if found is not None and words[0] not in firsts else None


def _unclosed(text: str) -> int | None:
    stack: list[int] = []
    for found in _LEXEME.finditer(text):
        lexeme = found.group()
        if lexeme in "([{":
            stack.append(found.start())
        elif lexeme in ")]}" and stack:
            stack.pop()
    return stack[-1] if stack else None


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
