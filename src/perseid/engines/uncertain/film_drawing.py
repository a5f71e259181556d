"""Draws the belief about one key over time: a strip of small floor plans as SVG, or bars for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from perseid.engines.uncertain.film import Film, Frame
from perseid.engines.uncertain.floor_plan import Cell, floor_cells
from perseid.errors import UnsupportedError
from perseid.semantics import values as v

WIDE = 940
"""Maximum width of a strip before it wraps."""
CELL_WIDTH, TALL, MARGIN, HEAD, LINE = 64, 50, 26, 20, 16
BLUE, RED, INK, GREY, WALL = "#0072b2", "#d55e00", "#222222", "#666666", "#555555"
FONT = "font-family='Helvetica, Arial, sans-serif'"
DARK, SHADED = 0.8, 0.2
"""Belief above which text in a room is white, and up to which a room's name is grey."""


def draw_film(film: Film, form: str) -> str:
    """Render a film as text or SVG."""
    if form == "text":
        return _text(film)
    if form == "svg":
        return _svg(film)
    raise UnsupportedError(
        f"Unsupported format {form!r} for a drawing of an uncertain stream.", hint="Use text or svg."
    )


# For a terminal.


def _text(film: Film) -> str:
    width = max(8, *(len(value) for value in film.values))
    times = [v.clock(frame.time) for frame in film.frames]
    first = max(map(len, times))
    reads = [_read(frame) for frame in film.frames]
    read_width = max(len("read"), *map(len, reads)) if _reads(film) else 0
    head = [
        f"{'time':{first}}",
        *([f"{'read':{read_width}}"] if read_width else []),
        *(f"{name:{width}}" for name in film.values),
    ]
    lines = ["  ".join([*head, *film.patterns]).rstrip()]
    for time, read, frame in zip(times, reads, film.frames, strict=True):
        cells = [f"{time:{first}}", *([f"{read:{read_width}}"] if read_width else [])]
        for number, share in enumerate(frame.probabilities):
            bar = "#" * round(width * share) or ("." if share > 0 else "")
            cells.append(f"{bar[: width - 2] + ' *' if frame.truth == number else bar:{width}}")
        chances = [f"{chance:<{len(name)}.4f}" for name, chance in zip(film.patterns, frame.chances, strict=True)]
        lines.append("  ".join([*cells, *chances]).rstrip())
    return "\n".join(lines) + "\n"


def _read(frame: Frame) -> str:
    return "" if frame.reading is None else frame.reading or "nothing"


# For a page.


def _svg(film: Film) -> str:
    cells = floor_cells(len(film.values), film.doors)
    columns, rows = (1 + max(cell[i] for cell in cells) for i in range(2))
    foot = LINE * (len(film.patterns) + _reads(film)) + 8
    across, down = columns * CELL_WIDTH + MARGIN, HEAD + rows * TALL + foot + MARGIN
    abreast = max(1, min(len(film.frames), (WIDE - MARGIN) // across))
    lines = -(-len(film.frames) // abreast)
    legend = list(_legend(film))
    width = max(MARGIN + abreast * across, 2 * MARGIN + sum(wide for _, wide in legend))
    height = MARGIN + lines * down + HEAD
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' {FONT}>",
        f"<title>{escape(_title(film))}</title>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
    ]
    for number, frame in enumerate(film.frames):
        left, top = MARGIN + number % abreast * across, MARGIN / 2 + number // abreast * down
        out.append(f"<g transform='translate({left:g} {top:g})'>")
        out += _frame(film, frame, cells)
        out.append("</g>")
    at = MARGIN
    for drawn, wide in legend:
        out.append(f"<g transform='translate({at} {height - MARGIN})'>{drawn}</g>")
        at += wide
    return "\n".join([*out, "</svg>"]) + "\n"


def _reads(film: Film) -> bool:
    return any(frame.reading is not None for frame in film.frames)


def _title(film: Film) -> str:
    return "Probability of each value" + (f" for {film.of}" if film.of else "") + ", step by step"


def _frame(film: Film, frame: Frame, cells: Sequence[Cell]) -> Iterator[str]:
    yield _words(0, 12, v.clock(frame.time), 12, INK, bold=True)
    yield f"<g transform='translate(0 {HEAD})'>"
    number_of_cell = {cell: number for number, cell in enumerate(cells)}
    doors = {frozenset(pair) for pair in film.doors}
    for number, (column, row) in enumerate(cells):
        share = frame.probabilities[number]
        at = f"x='{column * CELL_WIDTH}' y='{row * TALL}' width='{CELL_WIDTH}' height='{TALL}'"
        yield f"<rect {at} fill='white'/>"
        yield f"<rect {at} fill='{BLUE}' fill-opacity='{share:.2f}' stroke='{WALL}' stroke-width='1.5'/>"
    for one, other in film.doors:
        if not _adjacent(cells[one], cells[other]):
            (x1, y1), (x2, y2) = _middle(cells[one]), _middle(cells[other])
            yield f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{GREY}' stroke-dasharray='2 3'/>"
    for (column, row), number in number_of_cell.items():
        for step in ((1, 0), (0, 1)):
            next_door = number_of_cell.get((column + step[0], row + step[1]))
            if next_door is not None and frozenset((number, next_door)) in doors:
                yield _door(column, row, step)
    for number, (column, row) in enumerate(cells):
        yield from _room(film.values[number], frame, number, column * CELL_WIDTH, row * TALL)
    yield "</g>"
    below = HEAD + TALL * (1 + max(row for _, row in cells)) + 4
    if frame.reading is not None:
        yield _words(0, below + 12, frame.reading or "no reading", 11, RED if frame.reading else GREY)
    above = LINE if _reads(film) else 0
    for line, (name, chance) in enumerate(zip(film.patterns, frame.chances, strict=True)):
        yield _words(0, below + 12 + above + LINE * line, f"{name}  {_chance(chance)}", 12, INK, bold=chance > 0)


def _room(name: str, frame: Frame, number: int, x: int, y: int) -> Iterator[str]:
    share = frame.probabilities[number]
    ink = "white" if share > DARK else INK
    max_length = 7 if number in frame.likely_values else 10
    shown = name if len(name) <= max_length else name[: max_length - 1] + "…"
    yield _words(x + 6, y + 15, shown, 10.5, ink if share > SHADED else GREY, hover=name)
    if share > 0:
        yield _words(x + 6, y + 37, _percent(share), 12, ink)
    if number in frame.likely_values:
        yield _waves(x + CELL_WIDTH - 12, y + 13)
    if number == frame.truth:
        yield _person(x + CELL_WIDTH - 12, y + TALL - 14)


def _door(column: int, row: int, step: Cell) -> str:
    """A gap in the wall between two rooms."""
    x, y = (column + step[0]) * CELL_WIDTH, (row + step[1]) * TALL
    if step[0]:
        return f"<line x1='{x}' x2='{x}' y1='{y + TALL * 0.35:g}' y2='{y + TALL * 0.65:g}' stroke='white' stroke-width='3'/>"
    return f"<line x1='{x + CELL_WIDTH * 0.38:g}' x2='{x + CELL_WIDTH * 0.62:g}' y1='{y}' y2='{y}' stroke='white' stroke-width='3'/>"


def _adjacent(one: Cell, other: Cell) -> bool:
    return abs(one[0] - other[0]) + abs(one[1] - other[1]) == 1


def _middle(cell: Cell) -> tuple[float, float]:
    return (cell[0] + 0.5) * CELL_WIDTH, (cell[1] + 0.5) * TALL


def _percent(share: float) -> str:
    """Format a probability briefly; a possible value is never 0 %, an uncertain one never 100 %."""
    if 0 < share < 0.005:
        return "< 1 %"
    if 0.995 < share < 1 - 1e-9:
        return "> 99 %"
    return f"{100 * share:.0f} %"


def _chance(chance: float) -> str:
    return "p<0.01" if 0 < chance < 0.005 else f"p={chance:.2f}" if chance else "p=0"


def _waves(x: float, y: float) -> str:
    """An antenna symbol, on a white spot for contrast in dark rooms."""
    arcs = "".join(
        f"<path d='M {x - r * 0.7:g} {y + 3 - r * 0.7:g} A {r} {r} 0 0 1 {x + r * 0.7:g} {y + 3 - r * 0.7:g}' fill='none' "
        f"stroke='{RED}' stroke-width='1.5'/>"
        for r in (4, 8)
    )
    spot = f"<circle cx='{x:g}' cy='{y - 0.5:g}' r='9' fill='white'/>"
    return f"<g>{spot}<circle cx='{x:g}' cy='{y + 3:g}' r='1.8' fill='{RED}'/>{arcs}</g>"


def _person(x: float, y: float) -> str:
    """The symbol at the true position."""
    return (
        f"<g stroke='white' stroke-width='1' fill='{INK}'><path d='M {x - 6:g} {y + 9:g} a 6 7 0 0 1 12 0 z'/>"
        f"<circle cx='{x:g}' cy='{y - 2:g}' r='4'/></g>"
    )


def _legend(film: Film) -> Iterator[tuple[str, int]]:
    """Legend entries of the marks in use, each with its width."""
    shades = "".join(
        f"<rect x='{16 * i}' y='-10' width='16' height='12' fill='{BLUE}' fill-opacity='{i / 4}' stroke='{WALL}' "
        "stroke-width='0.5'/>"
        for i in range(5)
    )
    yield shades + _words(86, 0, "probability, 0 to 100 %", 11, GREY), 240
    if any(frame.likely_values for frame in film.frames):
        yield _waves(6, -4) + _words(20, 0, "reading", 11, GREY), 90
    if any(frame.truth is not None for frame in film.frames):
        yield _person(6, -8) + _words(20, 0, "true value", 11, GREY), 100


def _words(x: float, y: float, text: str, size: float, ink: str, bold: bool = False, hover: str = "") -> str:
    text, hover = ("".join(sign if sign.isprintable() else "·" for sign in one) for one in (text, hover))
    title = f"<title>{escape(hover)}</title>" if hover not in ("", text) else ""
    weight = " font-weight='bold'" if bold else ""
    return f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' fill='{ink}'{weight}>{title}{escape(text)}</text>"
