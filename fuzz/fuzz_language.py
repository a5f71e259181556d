"""Fuzzes the pattern language: parsing, printing and resolving raise only errors of Perseid.

The first byte selects how the rest is decoded: as text, or as a sequence of tokens of the language, which passes
the first token far more often.
"""

from __future__ import annotations

import sys
import traceback

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["perseid.lang", "perseid.semantics"]):
    from perseid.errors import PerseidError
    from perseid.lang.parser import parse_element, parse_expression, parse_file
    from perseid.lang.printer import KEYWORDS, print_element, print_expr, print_file
    from perseid.semantics.binding import bind
    from perseid.semantics.resolve import resolve

PIECES = [
    *sorted(KEYWORDS),
    *[
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        ".",
        ":",
        "|",
        "&",
        "+",
        "-",
        "*",
        "/",
        "%",
        "?",
        "=",
        "->",
        "->>",
        "<>",
        "<=",
        ">=",
        "<=>",
        "||",
        "<<",
        ">>",
        "'",
        "`",
        "--",
        "/*",
        "*/",
    ],
    *("a", "b", "t", "x", "y", "p", "Login", "Logout", "Transfer", "user", "amount", "1", "0", "2.5", "1e9", "'x'"),
    *("`b c`", ":p", "{2,5}", "{2}", "{,3}", "+?", "<< //a->n[/b > 1] >>", "10 minutes", "5 events", "\n"),
    *(
        "pattern p match",
        "partition by user",
        "within 10 minutes",
        "selection any",
        "a.x = b.y",
        "count(t)",
        "sum(t.x)",
    ),
    *("prev(x)", "first(t.x)", "last(t.x)", "a -> b", "Login a ->", "not Logout ->", "Transfer+ t", "return a.x as x"),
    *(
        "timestamp '2026-01-31 12:00:00Z'",
        "date '2026-01-31'",
        "(p duration = 5 minutes)",
        "(user as u)",
        "until Logout",
    ),
    *(
        "is null",
        "is not true",
        "x in (1, 2)",
        "(x, y) in Office",
        "case when x then y else t end",
        "cast(x as double)",
    ),
    *(
        "after match skip past last",
        "report timeouts",
        "suppress 1 hour by user",
        "evidence limit 5",
        "holds for 1 minute",
    ),
]


def text_of(data: bytes) -> str:
    """Decode fuzzer bytes to a pattern text."""
    if not data:
        return ""
    if data[0] % 4 == 0:
        return data[1:].decode("utf-8", "surrogatepass" if data[0] % 8 else "replace")
    head = "pattern p match Login a -> " if data[0] % 4 == 1 else "pattern p match " if data[0] % 4 == 2 else ""
    return head + " ".join(PIECES[byte % len(PIECES)] for byte in data[1:])


def check(text: str) -> None:
    try:
        file = parse_file(text)
    except PerseidError as error:
        str(error)
    else:
        assert parse_file(print_file(file)) == file
        for pattern in file.patterns:
            try:
                resolve(bind(pattern))
            except PerseidError as error:
                str(error)
    try:
        expr = parse_expression(text)
    except PerseidError:
        pass
    else:
        assert parse_expression(print_expr(expr)) == expr
    try:
        element = parse_element(text)
    except PerseidError:
        pass
    else:
        assert parse_element(print_element(element)) == element


def one_input(data: bytes) -> None:
    try:
        text = text_of(data)
    except UnicodeDecodeError:
        return
    try:
        check(text)
    except BaseException:
        sys.stderr.write(f"the text: {text!r}\n{traceback.format_exc()}\n")
        raise


def main() -> None:
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
