"""``perseid explain-error``: the causes and the fix of an error code."""

from __future__ import annotations

from typing import Annotated

import typer

from perseid.cli.common import misuse
from perseid.error_codes import CODES, find_code
from perseid.errors import PerseidError


def explain_error_command(
    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE", help="A code, or the name of an error class; without it, list all codes."),
    ] = None,
) -> None:
    """Print the causes and the fix of an error code.

    Example: perseid explain-error search-budget
    """
    if code is None:
        width = max(len(one.code) for one in CODES)
        for one in CODES:
            typer.echo(f"{one.code:{width}}  {one.class_name}")
        return
    try:
        typer.echo(find_code(code).explain(), nl=False)
    except PerseidError as error:
        raise misuse(str(error)) from None
