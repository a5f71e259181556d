"""Draw moving bodies as a strip of stick figures, with the postures, the events and the gestures of each frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDE, TALL, MARGIN, HEAD, FOOT, BAR = 78, 118, 20, 18, 34, 30
"""Sizes in pixels: width and height of a frame, margin of the strip, space above and below a figure, height of a gesture bar."""
BLUE, RED, INK, GREY = "#0072b2", "#d55e00", "#222222", "#666666"
FONT = "font-family='Helvetica, Arial, sans-serif'"


@dataclass(frozen=True, slots=True)
class Posed:
    """A frame: positions of the joints (y points up), whether the posture is taken, and the events of the frame."""

    caption: str
    joints: Mapping[str, Point]
    stands: bool
    happens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detected:
    """A detected gesture with its first and its last frame."""

    name: str
    first: int
    last: int


def draw_skeletons(
    title: str,
    frames: Sequence[Posed],
    bones: Sequence[tuple[str, str]],
    limb: Sequence[str],
    head: str,
    detected: Sequence[Detected],
) -> str:
    """Draw the strip as SVG; ``limb`` names the joints of the highlighted bones, ``head`` the joint drawn as a circle."""
    width = 2 * MARGIN + WIDE * len(frames)
    height = 2 * MARGIN + HEAD + TALL + FOOT + BAR
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' {FONT}>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
    ]
    place = _places(frames)
    for number, frame in enumerate(frames):
        out.append(f"<g transform='translate({MARGIN + WIDE * number} {MARGIN})'>")
        out += _frame(frame, bones, limb, head, place)
        out.append("</g>")
    for one in detected:
        out += _detected(one)
    return "\n".join([*out, "</svg>"]) + "\n"


def _places(frames: Sequence[Posed]) -> tuple[float, float, float]:
    """The smallest x and y of all joints, and the number of pixels per meter."""
    points = [point for frame in frames for point in frame.joints.values()]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    scale = min((WIDE - 10) / max(right - left, 1e-9), (TALL - 14) / max(high - low, 1e-9))
    return (left + right) / 2 - WIDE / 2 / scale, low, scale


def _frame(
    frame: Posed,
    bones: Sequence[tuple[str, str]],
    limb: Sequence[str],
    head: str,
    place: tuple[float, float, float],
) -> Iterator[str]:
    left, low, scale = place
    at = {name: ((x - left) * scale, HEAD + TALL - 7 - (y - low) * scale) for name, (x, y) in frame.joints.items()}
    strong = RED if frame.stands else BLUE
    yield _words(WIDE / 2, 11, frame.caption, 10.5, GREY)
    # Draw the limb last: it is in front of the body.
    own = [bone for bone in bones if bone[0] in limb and bone[1] in limb]
    yield from (_bone(at[one], at[other], INK, 2) for one, other in bones if (one, other) not in own)
    x, y = at[head]
    yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6' fill='white' stroke='{INK}' stroke-width='2'/>"
    yield from (_bone(at[one], at[other], strong, 3.5) for one, other in own)
    x, y = at[limb[-1]]
    yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{strong}'/>"
    for line, text in enumerate(frame.happens):
        yield _words(WIDE / 2, HEAD + TALL + 13 + 13 * line, text, 10.5, RED if frame.stands else INK)


def _bone(one: Point, other: Point, ink: str, thick: float) -> str:
    return (
        f"<line x1='{one[0]:.1f}' y1='{one[1]:.1f}' x2='{other[0]:.1f}' y2='{other[1]:.1f}' stroke='{ink}' "
        f"stroke-width='{thick:g}' stroke-linecap='round'/>"
    )


def _detected(one: Detected) -> Iterator[str]:
    y = MARGIN + HEAD + TALL + FOOT + 6
    x1, x2 = MARGIN + WIDE * one.first + 6, MARGIN + WIDE * (one.last + 1) - 6
    yield f"<path d='M {x1} {y - 5} V {y} H {x2} V {y - 5}' fill='none' stroke='{BLUE}' stroke-width='1.5'/>"
    yield _words((x1 + x2) / 2, y + 17, one.name, 13, BLUE, bold=True)


def _words(x: float, y: float, text: str, size: float, ink: str, bold: bool = False) -> str:
    weight = " font-weight='bold'" if bold else ""
    return f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' text-anchor='middle' fill='{ink}'{weight}>{escape(text)}</text>"
