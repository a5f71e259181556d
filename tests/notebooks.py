"""Runs notebooks without Jupyter: the code cells in order, in one namespace, as IPython would show their output."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"


def run_notebook(path: Path) -> None:
    """Run a notebook; its stored output must be the output of this run. PERSEID_REWRITE_GOLDEN=1 rewrites the output."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "notebook"}
    code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code_cells
    for number, cell in enumerate(code_cells, 1):
        outputs = run_cell("".join(cell["source"]), f"{path.name}, cell {number}", namespace, number)
        if os.environ.get("PERSEID_REWRITE_GOLDEN"):
            cell["outputs"], cell["execution_count"] = outputs, number
        else:
            assert (cell["outputs"], cell["execution_count"]) == (outputs, number)
    if os.environ.get("PERSEID_REWRITE_GOLDEN"):
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def run_cell(source: str, name: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run one cell and return its outputs: printed text, and the display of the last expression."""
    body = ast.parse(source, name)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    out, shown = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(body, name, "exec"), namespace)
        if last is not None:
            assert isinstance(last, ast.Expr)
            shown = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if out.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(out.getvalue())})
    if shown is not None:
        data = {"text/plain": lines(repr(shown))}
        if hasattr(shown, "_repr_html_") and (html := shown._repr_html_()):
            data["text/html"] = lines(html)
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
