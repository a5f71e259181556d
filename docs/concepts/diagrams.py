"""Draws the diagrams of the concept pages: run this file to write the SVG files next to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from math import atan2, cos, pi, sin
from pathlib import Path

WIDTH = 720
FOLDER = Path(__file__).parent
# Colors of Okabe and Ito. Their blue has too little contrast on a dark ground, so sky blue replaces it there.
LIGHT = {
    "ground": "#FFFFFF",
    "ink": "#000000",
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "purple": "#CC79A7",
}
DARK = {**LIGHT, "ground": "#161616", "ink": "#FFFFFF", "blue": "#56B4E9"}


def style() -> str:
    """Return the style sheet: classes for the ground, the ink and each color, in light and dark."""

    def rules(colors: dict[str, str]) -> str:
        lines = [
            f".ground {{ fill: {colors['ground']}; }}",
            f"text {{ fill: {colors['ink']}; }}",
            f".line {{ stroke: {colors['ink']}; }}",
            f".halo {{ stroke: {colors['ground']}; }}",
        ]
        for name, color in colors.items():
            if name != "ground":
                opacity = 0.08 if name == "ink" else 0.2
                lines += [
                    f".chip.{name} {{ fill: {colors['ground']}; stroke: {color}; }}",
                    f".area.{name} {{ fill: {color}; fill-opacity: {opacity}; stroke: {color}; }}",
                    f".stroke.{name} {{ stroke: {color}; }}",
                    f".solid.{name} {{ fill: {color}; }}",
                ]
        return "\n".join(lines)

    fixed = """\
text { font-family: system-ui, 'DejaVu Sans', Verdana, sans-serif; font-size: 14px; }
.small { font-size: 13px; }
.head { font-weight: bold; }
.code { font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 13px; }
.line { stroke-width: 1; stroke-opacity: 0.5; fill: none; }
.dashed { stroke-dasharray: 5 4; }
.chip { stroke-width: 2.5; }
.area { stroke-opacity: 0.7; stroke-width: 1.5; }
.stroke { stroke-width: 2.5; fill: none; }
.halo { paint-order: stroke; stroke-width: 5px; }"""
    return f"{fixed}\n{rules(LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{rules(DARK)}\n}}"


class Diagram:
    """Parts of a picture, drawn in the order in which they are added."""

    def __init__(self, title: str, description: str, height: int) -> None:
        self.title, self.description, self.height = title, description, height
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words, quote=False)}</text>'
        )

    def line(self, x0: float, y0: float, x1: float, y1: float, kind: str = "line") -> None:
        self.parts.append(f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" class="{kind}"/>')

    def arrow(self, x0: float, y0: float, x1: float, y1: float, color: str = "ink") -> None:
        """Draw an arrow from the first point to the second."""
        turn = atan2(y1 - y0, x1 - x0)
        wings = [(x1 - 9 * cos(turn + side), y1 - 9 * sin(turn + side)) for side in (-pi / 7, pi / 7)]
        head = " ".join(f"{x:.1f},{y:.1f}" for x, y in ((x1, y1), *wings))
        self.line(x0, y0, x1 - 6 * cos(turn), y1 - 6 * sin(turn), f"stroke {color}")
        self.parts.append(f'<polygon points="{head}" class="solid {color}"/>')

    def axis(self, y: float, x0: float, x1: float, marks: dict[float, str], caption: str = "") -> None:
        """Draw a time axis with a label below each mark; the caption is below its end."""
        self.arrow(x0, y, x1, y)
        for x, label in marks.items():
            self.line(x, y - 5, x, y + 5)
            self.text(x, y + 20, label, "small", "middle")
        if caption:
            self.text(x1, y + 38, caption, "small", "end")

    def event(self, x: float, y: float, label: str, color: str = "ink", width: float = 0, dashed: bool = False) -> None:
        """Draw an event, as a rounded label around the point."""
        wide = width or 12 + 9 * len(label)
        kind = f"chip {color} dashed" if dashed else f"chip {color}"
        self.parts.append(
            f'<rect x="{x - wide / 2:g}" y="{y - 13:g}" width="{wide:g}" height="26" rx="13" class="{kind}"/>'
        )
        self.text(x, y + 5, label, "", "middle")

    def span(self, x0: float, x1: float, y: float, label: str, color: str, height: float = 24) -> None:
        """Draw an interval of time as a bar with a label inside."""
        place = f'x="{x0:g}" y="{y - height / 2:g}" width="{x1 - x0:g}" height="{height:g}" rx="4"'
        self.parts += [f'<rect {place} class="ground"/>', f'<rect {place} class="area {color}"/>']
        if label:
            self.text((x0 + x1) / 2, y + 5, label, "small", "middle")

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str], color: str = "ink") -> None:
        """Draw a box with centered lines; the first line is its heading."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="chip {color}"/>'
        )
        top = y + height / 2 - 9 * (len(lines) - 1) + 5
        for number, words in enumerate(lines):
            self.text(x + width / 2, top + 18 * number, words, "small" if number else "small head", "middle")

    def boundary(self, x: float, y0: float, y1: float, label: str, color: str, anchor: str = "middle") -> None:
        """Draw a moment as a vertical dashed line with a label above it."""
        self.line(x, y0, x, y1, f"stroke {color} dashed")
        self.text(x, y0 - 6, label, "small head", anchor)

    def svg(self) -> str:
        body = "\n".join(self.parts)
        return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" viewBox="0 0 {WIDTH} {self.height}" role="img">
<title>{escape(self.title, quote=False)}</title>
<desc>{escape(self.description, quote=False)}</desc>
<style>
{style()}
</style>
<rect width="{WIDTH}" height="{self.height}" rx="8" class="ground"/>
{body}
</svg>
"""


def matches_by_rule(
    title: str,
    description: str,
    events: Sequence[tuple[str, str]],
    rules: Sequence[tuple[str, str, str, Sequence[tuple[int, ...]]]],
) -> Diagram:
    """Draw events in columns and, for each rule, one row for each match with the events that it takes.

    An event is its name and its type; a rule is its name, a comment, a color and its matches, which are places of events.
    """
    rows = sum(max(len(matches), 1) for *_, matches in rules)
    drawing = Diagram(title, description, 84 + 34 * rows + 16 * len(rules))
    columns = [300 + 360 * place / (len(events) - 1) for place in range(len(events))]
    drawing.text(20, 45, "events", "head")
    for x, (name, event_type) in zip(columns, events, strict=True):
        drawing.text(x, 22, event_type, "small", "middle")
        drawing.event(x, 42, name, width=40)
    y = 84.0
    for name, comment, color, matches in rules:
        drawing.line(20, y - 16, 700, y - 16)
        drawing.text(20, y + 12, name, "code head")
        drawing.text(20, y + 30, comment, "small") if len(matches) > 1 else drawing.text(170, y + 12, comment, "small")
        for taken in matches:
            for one, next_one in pairwise(taken):
                drawing.line(columns[one], y + 8, columns[next_one], y + 8, f"stroke {color}")
            for place in taken:
                drawing.event(columns[place], y + 8, events[place][0], color, 40)
            y += 34
        y += 16
    return drawing


def draw_index() -> Diagram:
    drawing = Diagram(
        "Concepts on the way from events to results",
        "A stream of events is ordered by event time, partial matches advance by contiguity, selection decides which"
        " matches count, and the output goes to a sink. Below: kinds of streams, lateness, state, strategy, guarantee.",
        230,
    )
    upper = [
        ("Stream", ["rows with time,", "type and key"]),
        ("Event time", ["order of events,", "watermark"]),
        ("Contiguity", ["events between", "two steps"]),
        ("Selection", ["which matches", "count"]),
        ("Output", ["matches with", "a match_id"]),
    ]
    lower = [
        ("Other streams", ["probability,", "live graphs"], "purple"),
        ("Disorder", ["when to emit", "a match"], "orange"),
        ("State", ["open partial", "matches"], "green"),
        ("Contexts", ["which events", "are consumed"], "blue"),
        ("Exactly once", ["guarantee of", "each sink"], "red"),
    ]
    for number, (name, lines) in enumerate(upper):
        x = 12 + 143 * number
        drawing.box(x, 24, 124, 72, [name, *lines])
        if number:
            drawing.arrow(x - 18, 60, x - 2, 60)
    for number, (name, lines, color) in enumerate(lower):
        x = 12 + 143 * number
        drawing.box(x, 136, 124, 72, [name, *lines], color)
        drawing.line(x + 62, 97, x + 62, 135, f"stroke {color}")
    return drawing


def draw_event_time() -> Diagram:
    drawing = Diagram(
        "Event time, watermark and a late event",
        "An order at 09:00 requires no payment until 10:00. The newest event, at 10:30, moves the watermark to 10:20."
        " The absence is then decided. A payment with the time 09:40 that arrives afterwards is late.",
        270,
    )

    def at(minute: float) -> float:
        return 60 + 5.5 * minute

    drawing.span(at(-8), at(80), 84, "", "ink", 76)
    drawing.text(at(-6), 64, "complete up to the watermark", "small")
    drawing.span(at(0), at(60), 100, "not Payment for 1 hour", "green")
    drawing.event(at(0), 100, "Order", "blue")
    drawing.event(at(90), 100, "Click", "blue")
    drawing.boundary(at(80), 30, 180, "watermark 10:20", "orange", "end")
    drawing.arrow(at(90), 146, at(80) + 2, 146, "orange")
    drawing.line(at(90), 116, at(90), 146, "stroke orange")
    drawing.text(at(90) + 6, 151, "lateness", "small")
    drawing.text(at(90) + 6, 169, "10 minutes", "small")
    drawing.axis(200, 20, 700, {at(0): "09:00", at(40): "09:40", at(60): "10:00", at(80): "10:20", at(90): "10:30"})
    drawing.text(700, 244, "event time", "small", "end")
    drawing.event(at(40), 158, "Payment", "red")
    drawing.text(at(40) - 50, 163, "late: arrives after Click", "small", "end")
    return drawing


def draw_contiguity() -> Diagram:
    return matches_by_rule(
        "Matches of the three arrows",
        "Events: Search s1, View v1, Search s2, Buy b1, Buy b2. Strict contiguity gives s2 b1. Skip to next gives s1 b1 and"
        " s2 b1. Skip to any gives s1 b1, s1 b2, s2 b1 and s2 b2.",
        [("s1", "Search"), ("v1", "View"), ("s2", "Search"), ("b1", "Buy"), ("b2", "Buy")],
        [
            ("Search, Buy", "strict", "red", [(2, 3)]),
            ("Search -> Buy", "skip to next", "blue", [(0, 3), (2, 3)]),
            ("Search ->> Buy", "skip to any", "green", [(0, 3), (2, 3), (0, 4), (2, 4)]),
        ],
    )


def draw_selection() -> Diagram:
    return matches_by_rule(
        "Matches of the same pattern under five rules",
        "Events: requests r1 and r2, responses s1 and s2. By default: r1 s1 and r2 s1. Skip past last: r1 s1. Chronicle:"
        " r1 s1 and r2 s2. Recent: r2 s1 and r2 s2. Cumulative: r1 and r2 together with s1.",
        [("r1", "Request"), ("r2", "Request"), ("s1", "Response"), ("s2", "Response")],
        [
            ("no clause", "every start gives a match", "ink", [(0, 2), (1, 2)]),
            ("skip past last", "no overlap", "purple", [(0, 2)]),
            ("chronicle", "oldest partial match first", "blue", [(0, 2), (1, 3)]),
            ("recent", "newest partial match stays", "green", [(1, 2), (1, 3)]),
            ("cumulative", "all in one", "red", [(0, 1, 2)]),
        ],
    )


def draw_disorder() -> Diagram:
    drawing = Diagram(
        "When each strategy emits a match",
        "Arrival order: Shelf 09:02, Door 09:08, Till 09:05 (late), a punctuation, then the watermark passes 09:08."
        " Aggressive and early emit a match at Door and retract it at Till. Conservative decides at the punctuation,"
        " buffer and assemble at the watermark. Without the negation, assemble emits at Door.",
        340,
    )
    arrivals = {240: "Shelf", 330: "Door", 420: "Till", 530: "punctuation", 640: "watermark"}
    times = {240: "09:02", 330: "09:08", 420: "09:05", 530: "up to 09:10", 640: "after 09:08"}
    drawing.text(20, 27, "arrival order", "head")
    for x, name in arrivals.items():
        drawing.text(x, 27, name, "small head", "middle")
        drawing.text(x, 45, times[x], "small", "middle")
        drawing.line(x, 54, x, 314, "line dashed")
    drawing.text(20, 70, "pattern with not Till", "small head")
    lanes = [
        ("aggressive, early", 420, "orange"),
        ("conservative", 530, "green"),
        ("buffer, assemble", 640, "blue"),
    ]
    for number, (name, decided, color) in enumerate(lanes):
        y = 96 + 50 * number
        drawing.text(20, y + 5, name)
        drawing.span(330, decided, y, "" if decided == 420 else "waits", color)
        if decided == 420:
            drawing.event(330, y, "+", color, 34)
            drawing.event(decided, y, "−", color, 34)
            drawing.text(446, y + 5, "emitted, then retracted", "small halo")
        else:
            drawing.event(decided, y, "no match", color)
    drawing.line(20, 236, 700, 236)
    drawing.text(20, 262, "pattern without negation", "small head")
    drawing.text(20, 295, "assemble")
    drawing.event(330, 290, "+", "blue", 34)
    drawing.text(356, 295, "final: no later event can invalidate it", "small halo")
    return drawing


def draw_state() -> Diagram:
    drawing = Diagram(
        "Events in state",
        "The events of three keys, before and after the watermark. The order of ann has an open window and is retained. The"
        " order of bob has a closed window and is evicted. The order of cat is newer than the watermark and is buffered.",
        300,
    )
    watermark = 470
    for number, key in enumerate(("ann", "bob", "cat")):
        y = 66 + 54 * number
        drawing.text(20, y + 5, f"key {key}")
        drawing.line(100, y, 700, y)
    drawing.span(340, 600, 66, "", "blue")
    drawing.event(340, 66, "Order", "blue")
    drawing.text(604, 59, "open window", "small")
    drawing.span(130, 390, 120, "closed window", "ink")
    drawing.event(130, 120, "Order", dashed=True)
    drawing.boundary(watermark, 34, 216, "watermark", "orange")
    drawing.event(520, 174, "Order", "green")
    drawing.axis(222, 100, 700, {}, "event time")
    drawing.event(60, 272, "Order", "blue")
    drawing.text(98, 277, "retained", "small")
    drawing.event(230, 272, "Order", "green")
    drawing.text(268, 277, "buffered", "small")
    drawing.event(400, 272, "Order", dashed=True)
    drawing.text(438, 277, "evicted", "small")
    return drawing


def draw_exactly_once() -> Diagram:
    drawing = Diagram(
        "A batch is retried after a crash",
        "Batch 7 writes the match m1 to a Delta table and to a Kafka topic, and the process crashes before the commit. The"
        " restarted query retries batch 7 with the same rows and computes m1 again. The Delta table skips the batch and has m1 once, the topic twice.",
        270,
    )
    drawing.box(20, 40, 170, 56, ["batch 7", "rows 310 to 340"], "blue")
    drawing.box(360, 40, 170, 56, ["batch 7, retried", "rows 310 to 340"], "blue")
    drawing.arrow(190, 68, 246, 68, "red")
    drawing.text(275, 73, "crash", "small head", "middle")
    drawing.arrow(302, 68, 358, 68, "blue")
    drawing.text(275, 28, "before the commit", "small", "middle")
    drawing.arrow(530, 68, 590, 68, "green")
    drawing.text(650, 73, "commit", "small head", "middle")
    for y, name, second, result in (
        (150, "Delta", "skipped", "m1 once"),
        (210, "Kafka", "sent again", "m1 twice"),
    ):
        drawing.line(20, y + 28, 700, y + 28)
        drawing.event(105, y, "m1", "blue", 44)
        drawing.text(20, y + 5, name, "head")
        drawing.event(445, y, "m1", "blue", 44, dashed=name == "Delta")
        drawing.text(476, y + 5, second, "small")
        drawing.text(700, y + 5, result, "small head", "end")
    drawing.arrow(105, 98, 105, 134)
    drawing.arrow(445, 98, 445, 134)
    drawing.text(20, 260, "The match_id is the same in both attempts.", "small")
    return drawing


def draw_probability() -> Diagram:
    drawing = Diagram(
        "Probability at each step and three output policies",
        "Probabilities 0.45, 0.40, 0.06 and 0.42 at seconds 1 to 4. above(0.1) emits a row at 1, 2 and 4."
        " alerts(rise=0.4, fall=0.1) emits a row at 1 and at 4. spans(0.1) emits 1 to 2, and 4.",
        340,
    )
    steps = {1: 0.45, 2: 0.40, 3: 0.06, 4: 0.42}

    def at(second: int) -> float:
        return 150 + 120 * second

    drawing.text(20, 27, "probability", "head")
    for value, name in ((0.4, "rise 0.4"), (0.1, "fall 0.1")):
        drawing.line(230, 180 - 300 * value, 680, 180 - 300 * value, "line dashed")
        drawing.text(20, 185 - 300 * value, name, "small")
    for second, value in steps.items():
        top = 180 - 300 * value
        drawing.parts.append(
            f'<rect x="{at(second) - 24:g}" y="{top:g}" width="48" height="{180 - top:g}" class="area blue"/>'
        )
        drawing.text(at(second), top - 6, f"{value:.2f}", "small halo", "middle")
    drawing.axis(180, 230, 700, {at(second): f"{second} s" for second in steps})
    for number, name in enumerate(("above(0.1)", "alerts(rise=0.4, fall=0.1)", "spans(0.1)")):
        drawing.text(20, 237 + 40 * number, name, "code")
    for second in (1, 2, 4):
        drawing.event(at(second), 232, "row", "blue")
    for second in (1, 4):
        drawing.event(at(second), 272, "row", "orange")
    drawing.span(at(1) - 24, at(2) + 24, 312, "row", "green")
    drawing.span(at(4) - 24, at(4) + 24, 312, "row", "green")
    return drawing


def draw_live_graphs() -> Diagram:
    drawing = Diagram(
        "The life of a query match",
        "The load of a host is set to 95 at second 2, to 97 at second 3 and to 40 at second 4. The query with load above 90"
        " has a match from 2 to 4: found at 2, updated at 3, lost at 4. The rule acts at 2.",
        330,
    )

    def at(second: float) -> float:
        return 60 + 130 * second

    drawing.text(20, 65, "model", "head")
    for second, words in ((1, "create h1"), (2, "load = 95"), (3, "load = 97"), (4, "load = 40")):
        drawing.event(at(second), 60, words, "blue", 98)
        drawing.line(at(second), 74, at(second), 275, "line dashed")
    drawing.text(20, 125, "query", "head")
    drawing.span(at(2), at(4), 120, "match: h1 is overloaded", "green", 30)
    drawing.text(20, 185, "events", "head")
    for second, words in ((2, "found"), (3, "updated"), (4, "lost")):
        drawing.event(at(second), 180, words, "orange", 84)
    drawing.text(20, 245, "rule", "head")
    drawing.event(at(2), 240, "emit alarm", "red", 98)
    drawing.axis(280, 60, 700, {at(second): f"{second} s" for second in (1, 2, 3, 4)}, "event time")
    return drawing


DIAGRAMS: dict[str, Callable[[], Diagram]] = {
    "index": draw_index,
    "event-time": draw_event_time,
    "contiguity": draw_contiguity,
    "selection": draw_selection,
    "disorder": draw_disorder,
    "state": draw_state,
    "exactly-once": draw_exactly_once,
    "probability": draw_probability,
    "live-graphs": draw_live_graphs,
}


def write_diagrams(folder: Path = FOLDER) -> None:
    for name, draw in DIAGRAMS.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    write_diagrams()
