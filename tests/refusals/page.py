"""Generates the tables of docs/refusals.md from the cases, and lists raise sites that no case reaches."""

from __future__ import annotations

import ast
from pathlib import Path
from types import TracebackType

from tests.refusals import (
    disorder,
    jobs,
    models,
    sequence,
    spark_batch,
    spark_streaming,
    subscriptions,
    trees,
    uncertain,
)

ENGINES = (sequence, disorder, trees, subscriptions, uncertain, models, spark_batch, spark_streaming, jobs)
CASES = {f"{module.TITLE} {i}": case for module in ENGINES for i, case in enumerate(module.CASES, 1)}
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "refusals.md"
BEGIN = "## Combinations that an engine does not support\n"
UNSUPPORTED = {"UnsupportedError", "NotYetError"}


def generated() -> str:
    """Return the part of the page that is generated from the cases."""
    lines = [
        BEGIN,
        "The tests run each row and generate these tables. `tests/refusals/fixtures.py` defines the names in the code, such as `df`, `stream` and `model(…)`.",
        '`pattern("match …")` is short for `ps.pattern("pattern p match …")`. The column *reason* quotes the message.',
    ]
    for module in ENGINES:
        lines += ["", f"### {module.TITLE}", "", "| code | error | reason | use instead |", "|---|---|---|---|"]
        for case in module.CASES:
            code = case.code.replace("|", "\\|")
            reason = case.reason.replace("|", "\\|")
            lines.append(f"| ``{code}`` | `{case.error}` | {reason} | {case.instead} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the whole page: the first tables unchanged, then the generated part."""
    head = PAGE.read_text(encoding="utf-8").split(BEGIN)[0]
    return head + generated()


def raise_sites() -> dict[tuple[str, int, int], str]:
    """Raise sites of the two errors (file, first line, last line), with the name of the function."""
    found: dict[tuple[str, int, int], str] = {}
    for path in sorted((ROOT / "src" / "perseid").rglob("*.py")):
        name = path.relative_to(ROOT / "src").as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _named(node.exc) in UNSUPPORTED:
                    found[name, node.lineno, node.end_lineno or node.lineno] = (
                        function.name
                    )  # the innermost function is last
    return found


def _named(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def site_of(traceback: TracebackType | None, sites: dict[tuple[str, int, int], str]) -> tuple[str, int, int] | None:
    """Return the innermost raise site in a traceback, or None."""
    found = None
    while traceback is not None:
        path, line = Path(traceback.tb_frame.f_code.co_filename).as_posix(), traceback.tb_lineno
        for site in sites:
            if path.endswith(site[0]) and site[1] <= line <= site[2]:
                found = site
        traceback = traceback.tb_next
    return found
