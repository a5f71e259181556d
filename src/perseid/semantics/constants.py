"""Validates constants with a syntax of their own: regular expressions and networks."""

from __future__ import annotations

from perseid.errors import LimitError, PatternSyntaxError, Place, TypeMismatchError
from perseid.lang.expressions import Call, Literal, Span
from perseid.semantics.functions import Kind, literal_integer
from perseid.semantics.ip_networks import InvalidNetworkError, read_network
from perseid.semantics.regular_expressions import count_groups, problem_of


def check_constant(kind: Kind, literal: Literal) -> None:
    """Raise an error at the wrong part of a constant that is not valid for its kind."""
    if not isinstance(literal.value, str):
        return
    if kind == "regular expression":
        _check_expression(literal, literal.value)
    elif kind == "network":
        _check_network(literal, literal.value)


def check_group(call: Call) -> None:
    """Raise unless the expression of ``regexp_extract`` has the group."""
    expression, group = call.args[1], 1 if len(call.args) < 3 else literal_integer(call.args[2])
    if not isinstance(expression, Literal) or not isinstance(expression.value, str) or group is None:
        return
    groups = count_groups(expression.value)
    if not 0 <= group <= groups:
        raise TypeMismatchError(
            f"regexp_extract(…) has no group {group}: the regular expression has {groups or 'none'}.",
            span=(call.args[2] if len(call.args) > 2 else expression).span or call.span,
            hint="Write the part in parentheses, or use group 0 for the whole match.",
        )


def _check_expression(literal: Literal, expression: str) -> None:
    problem = problem_of(expression)
    if problem is not None:
        error = LimitError if problem.is_limit else PatternSyntaxError
        raise error(problem.message, span=_part_of(literal, expression, problem.part), hint=problem.hint)


def _check_network(literal: Literal, network: str) -> None:
    try:
        read_network(network)
    except InvalidNetworkError as error:
        meant = error.correction
        hint = "Write an address and a prefix length, as in '10.0.0.0/8' or '2001:db8::/32'."
        raise PatternSyntaxError(
            str(error), span=literal.span, hint=hint if meant is None else f"Write '{meant}'."
        ) from None


def _part_of(literal: Literal, text: str, part: str) -> Place | None:
    """The span of a part of a string literal; of the whole literal if the part is not found exactly once in a line."""
    span, found = literal.span, text.find(part)
    is_written_here = span is not None and span.end - span.start == len(text.replace("'", "''")) + 2
    if span is None or not part or not is_written_here or text.count(part) != 1 or "\n" in text:
        return span
    before = 1 + len(text[:found].replace("'", "''"))
    length = len(part.replace("'", "''"))
    return Span(span.start + before, span.start + before + length, span.line, span.column + before)
