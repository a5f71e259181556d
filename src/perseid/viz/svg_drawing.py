"""Drawing of an automaton as SVG: states in columns from left to right, edges as arrows with labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from perseid.viz.graph import MATCH, START, DrawnGraph, Edge

CHARACTER_PX, LINE_PX, PADDING_PX = 6.6, 15, 8
COLUMN_GAP_PX, ROW_GAP_PX, ARC_PX = 44, 34, 30
MARGIN_PX, LABEL_GAP_PX = 14, 4
_STYLE = (
    "text{font:12px sans-serif;text-anchor:middle}.label{font-size:10px;fill:#444}"
    ".state{fill:#fff;stroke:#222}.edge{fill:none;stroke:#222;marker-end:url(#arrow)}.background{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.label{fill:#bbb}.state{fill:#2a2a2a;stroke:#ddd}"
    ".edge{stroke:#ddd}#arrow path{fill:#ddd}.background{fill:#1e1e1e}}"
)
"""Light or dark colors, as the reader prefers; the background is drawn, because a page may have the other colors."""
_ARROW = (
    "<defs><marker id='arrow' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' orient='auto'>"
    "<path d='M0,0L10,5L0,10z'/></marker></defs>"
)


@dataclass(frozen=True, slots=True)
class _Box:
    """A state on the drawing: its center and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Text:
    """Lines of text, centered at a point."""

    text: str
    x: float
    y: float
    style: str = ""

    @property
    def height(self) -> float:
        return len(self.text.split("\n")) * LINE_PX if self.text else 0.0

    @property
    def top(self) -> float:
        """The base of the first line."""
        return self.y - self.height / 2 + LINE_PX * 0.75

    def lines(self) -> Iterator[str]:
        attribute = f" class='{self.style}'" if self.style else ""
        for number, line in enumerate(self.text.split("\n") if self.text else ()):
            yield f"<text{attribute} x='{self.x:.1f}' y='{self.top + number * LINE_PX:.1f}'>{escape(line)}</text>"


@dataclass(frozen=True, slots=True)
class _Arrow:
    """An edge on the drawing."""

    path: str
    label: _Text


def draw_svg(name: str, graph: DrawnGraph) -> str:
    """Draw the graph of an automaton; ``name`` labels its match state."""
    labels = {START: "start", **graph.steps, MATCH: name}
    columns = _columns(labels, graph.edges)
    boxes = _place(labels, columns, graph.edges)
    arrows = [_arrow(edge, boxes, columns) for edge in graph.edges]
    texts = [*(arrow.label for arrow in arrows), *(_Text(labels[state], box.x, box.y) for state, box in boxes.items())]
    edges = [y for box in boxes.values() for y in (box.y - box.height / 2, box.y + box.height / 2)]
    edges += [y for text in texts if text.text for y in (text.top - LINE_PX, text.top + text.height)]
    top, bottom = min(edges) - MARGIN_PX, max(edges) + MARGIN_PX
    right = max(box.x + box.width / 2 for box in boxes.values()) + MARGIN_PX
    if graph.footer:
        footer = _Text(graph.footer, right / 2, bottom + MARGIN_PX, "label")
        texts, bottom = [*texts, footer], bottom + footer.height + MARGIN_PX
    size = f"viewBox='0 {top:.0f} {right:.0f} {bottom - top:.0f}' width='{right:.0f}' height='{bottom - top:.0f}'"
    background = f"<rect class='background' y='{top:.0f}' width='{right:.0f}' height='{bottom - top:.0f}'/>"
    body = [f"<style>{_STYLE}</style>{_ARROW}{background}"]
    body += (f"<path class='edge' d='{arrow.path}'/>" for arrow in arrows)
    body += [_state(box, state) for state, box in boxes.items()]
    body += [line for text in texts for line in text.lines()]
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size}>\n" + "\n".join(body) + "\n</svg>\n"


def _columns(labels: dict[int, str], edges: list[Edge]) -> dict[int, int]:
    """The column of each state: one behind all states that lead to it, except over edges that go back."""
    following: dict[int, list[int]] = {state: [] for state in labels}
    for edge in edges:
        following[edge.source].append(edge.target)
    order: dict[int, None] = {}
    back_edges: set[tuple[int, int]] = set()
    open_states: set[int] = set()
    stack: list[tuple[int, Iterator[int]]] = []
    for root in labels:
        if root not in open_states and root not in order:
            stack.append((root, iter(following[root])))
            open_states.add(root)
        while stack:
            state, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                stack.pop()
                open_states.discard(state)
                order[state] = None
            elif target in open_states:
                back_edges.add((state, target))
            elif target not in order:
                stack.append((target, iter(following[target])))
                open_states.add(target)
    columns = dict.fromkeys(labels, 0)
    for state in reversed(order):
        for target in following[state]:
            if (state, target) not in back_edges:
                columns[target] = max(columns[target], columns[state] + 1)
    return columns


def _place(labels: dict[int, str], columns: dict[int, int], edges: list[Edge]) -> dict[int, _Box]:
    """Place states of a column below each other; the gap before a column has room for the labels of its edges."""
    sizes = {state: _size(label) for state, label in labels.items()}
    boxes: dict[int, _Box] = {}
    left = float(MARGIN_PX)
    for column in range(max(columns.values()) + 1):
        states = [state for state in labels if columns[state] == column]
        entering = [edge.label for edge in edges if columns[edge.target] == column and edge.source != edge.target]
        if column:
            left += COLUMN_GAP_PX + max((_size(label)[0] for label in entering), default=0.0)
        width = max(sizes[state][0] for state in states)
        y = -sum(sizes[state][1] + ROW_GAP_PX for state in states) / 2
        for state in states:
            box_width, height = sizes[state]
            boxes[state] = _Box(left + width / 2, y + (height + ROW_GAP_PX) / 2, box_width, height)
            y += height + ROW_GAP_PX
        left += width
    return boxes


def _size(text: str) -> tuple[float, float]:
    lines = text.split("\n")
    return max(map(len, lines)) * CHARACTER_PX + 2 * PADDING_PX, len(lines) * LINE_PX + 2 * PADDING_PX


def _state(box: _Box, state: int) -> str:
    radius = box.height / 2 if state in (START, MATCH) else 5
    return (
        f"<rect class='state' x='{box.x - box.width / 2:.1f}' y='{box.y - box.height / 2:.1f}' width='{box.width:.1f}' "
        f"height='{box.height:.1f}' rx='{radius:.1f}'/>"
    )


def _arrow(edge: Edge, boxes: dict[int, _Box], columns: dict[int, int]) -> _Arrow:
    source, target = boxes[edge.source], boxes[edge.target]
    span = columns[edge.target] - columns[edge.source]
    height = _Text(edge.label, 0, 0).height
    if span == 1:
        x1, y1, x2, y2 = source.x + source.width / 2, source.y, target.x - target.width / 2, target.y
        x, y = (x1 + x2) / 2, (y1 + y2) / 2 - height / 2 - LABEL_GAP_PX - abs(y2 - y1) * LABEL_GAP_PX / (x2 - x1)
        return _Arrow(f"M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}", _Text(edge.label, x, y, "label"))
    # Edges that skip a column arch above the states, edges that go back below them.
    side = -1 if span >= 0 else 1
    x1, y1 = source.x, source.y + side * source.height / 2
    x2, y2 = target.x, target.y + side * target.height / 2
    if edge.source == edge.target:
        x1, x2 = x1 - source.width / 4, x2 + source.width / 4
    bend = side * ARC_PX * (1 + abs(span))
    path = f"M{x1:.1f},{y1:.1f}C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 + bend:.1f} {x2:.1f},{y2:.1f}"
    y = (y1 + y2) / 2 + bend * 0.75 + side * (height / 2 + LABEL_GAP_PX)
    return _Arrow(path, _Text(edge.label, (x1 + x2) / 2, y, "label"))
