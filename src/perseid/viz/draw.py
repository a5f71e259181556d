"""Drawings of a pattern: text for terminals, Mermaid and DOT for documents and editors, SVG for notebooks."""

from __future__ import annotations

from typing import Literal

from perseid.errors import PerseidError
from perseid.semantics import core as c
from perseid.viz.graph import MATCH, START, DrawnGraph, graph_of
from perseid.viz.svg_drawing import draw_svg
from perseid.viz.text_drawing import draw_text

Format = Literal["text", "mermaid", "dot", "svg"]
"""Drawings of uncertain streams support ``text`` and ``svg``."""


def draw(pattern: c.CorePattern, form: Format = "text") -> str:
    """Draw the automaton of a pattern as text, Mermaid, DOT or SVG."""
    match form:
        case "text":
            return draw_text(pattern)
        case "mermaid":
            return _mermaid(pattern.name, graph_of(pattern))
        case "dot":
            return _dot(pattern.name, graph_of(pattern))
        case "svg":
            return draw_svg(pattern.name, graph_of(pattern))
    raise PerseidError(f"Unsupported drawing format {form!r}.", hint="Use text, mermaid, dot or svg.")


def _state(number: int) -> str:
    return {START: "start", MATCH: "match"}.get(number, f"s{number}")


def _mermaid(name: str, graph: DrawnGraph) -> str:
    def quoted(text: str) -> str:
        for sign, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("\n", "<br/>")):
            text = text.replace(sign, code)
        return f'"{text}"'

    lines = ["flowchart LR", "  start((start))"]
    lines.extend(f"  {_state(n)}[{quoted(label)}]" for n, label in graph.steps.items())
    lines.append(f"  match(({quoted(name)}))")
    for edge in graph.edges:
        label = f"|{quoted(edge.label)}|" if edge.label else ""
        lines.append(f"  {_state(edge.source)} -->{label} {_state(edge.target)}")
    if graph.footer:
        lines.append(f"  note[{quoted(graph.footer)}]:::note")
        lines.append("  classDef note fill:none,stroke:none")
    return "\n".join(lines) + "\n"


def _dot(name: str, graph: DrawnGraph) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    lines = [
        f"digraph {quoted(name)} {{",
        "  rankdir=LR;",
        f"  label={quoted(graph.footer)};",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
        '  start [shape=plaintext, label="start"];',
        f"  match [shape=box, style=bold, peripheries=2, label={quoted(name)}];",
    ]
    lines.extend(f"  {_state(n)} [label={quoted(label)}];" for n, label in graph.steps.items())
    lines.extend(
        f"  {_state(edge.source)} -> {_state(edge.target)} [label={quoted(edge.label)}];" for edge in graph.edges
    )
    return "\n".join([*lines, "}"]) + "\n"
