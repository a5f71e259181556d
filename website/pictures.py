"""Draw the picture of the README from real results: ``python -m website.pictures``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import perseid as ps

FILE = Path(__file__).parents[1] / "docs" / "assets" / "overview.svg"
WIDTH_PX, LEFT_PX, RIGHT_PX = 760, 70, 730
ROW_PX, LINE_PX = 56, 17
PATTERN = """
    pattern takeover
    match   Login a -> not Logout -> Login b
    where   b.ip <> a.ip
    within  10 minutes
    partition by user
    return  a.ip as first_ip, b.ip as second_ip
"""
EVENTS = [
    {"ts": "2026-03-01T09:00:00Z", "type": "Login", "user": "ann", "ip": "10.0.0.1"},
    {"ts": "2026-03-01T09:01:00Z", "type": "Login", "user": "bob", "ip": "10.0.0.7"},
    {"ts": "2026-03-01T09:03:00Z", "type": "Logout", "user": "bob", "ip": "10.0.0.7"},
    {"ts": "2026-03-01T09:04:00Z", "type": "Login", "user": "ann", "ip": "203.0.113.9"},
    {"ts": "2026-03-01T09:07:00Z", "type": "Login", "user": "bob", "ip": "198.51.100.4"},
]
STYLE = (
    ".t{font:13px sans-serif;fill:#222;text-anchor:start}.small{font-size:12px}.middle{text-anchor:middle}.code{font:12px monospace;white-space:pre}"
    ".title{font-weight:bold}.background{fill:#fff}.axis{stroke:#888}.event{fill:#0072b2}.other{fill:#888}"
    ".match{stroke:#d55e00;stroke-width:4}.found{fill:#b34a00}"
    "@media(prefers-color-scheme:dark){.t{fill:#eee}.background{fill:#1e1e1e}.axis{stroke:#999}.event{fill:#56b4e9}"
    ".other{fill:#aaa}.match{stroke:#e69f00}.found{fill:#e69f00}}"
)


def picture() -> str:
    """Return the pattern, the events of two users with the match, and the reason why the other user has none."""
    pattern = ps.pattern(PATTERN)
    (match,) = pattern.match(EVENTS)
    body = [_text(20, 28, "The pattern", "title")]
    drawing = pattern.draw("svg")
    height = float(re.search(r"height='(\d+)'", drawing)[1])  # type: ignore[index]
    body.append(drawing.strip().replace("<svg ", "<svg x='20' y='38' ", 1))
    y = 38 + height + 30
    body.append(_text(20, y, "Events and the match", "title"))
    for user in ("ann", "bob"):
        y += ROW_PX
        body += [_text(20, y + 4, user), f"<line class='axis' x1='{LEFT_PX}' y1='{y}' x2='{RIGHT_PX}' y2='{y}'/>"]
        if match.key["user"] == user:
            first, last = (_x(moment.astimezone(UTC)) for moment in (match.start, match.end))
            body.append(f"<line class='match' x1='{first:.0f}' y1='{y}' x2='{last:.0f}' y2='{y}'/>")
        for event in (one for one in EVENTS if one["user"] == user):
            x = _x(datetime.fromisoformat(event["ts"]))
            shade = "event" if event["type"] == "Login" else "other"
            body.append(f"<circle class='{shade}' cx='{x:.0f}' cy='{y}' r='6'/>")
            body.append(_text(x, y - 14, f"{event['type']} {event['ts'][11:16]}", "small middle"))
            body.append(_text(x, y + 23, event["ip"], "small middle"))
    y += ROW_PX + 4
    values = ", ".join(f"{name} = {value}" for name, value in match.values.items())
    body.append(_text(LEFT_PX, y, f"Match: user = {match.key['user']}, {values}", "found"))
    y += 38
    body.append(_text(20, y, "Why does bob have no match? why_not:", "title"))
    lines = str(pattern.why_not(EVENTS, key={"user": "bob"})).split("1. candidate")[1].split("2. candidate")[0]
    for line in ("1. candidate" + lines).rstrip().splitlines():
        y += LINE_PX
        body.append(_text(20, y, line, "code"))
    bottom = y + 20
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH_PX} {bottom:.0f}' width='{WIDTH_PX}' "
        f"height='{bottom:.0f}' role='img'>\n<title>A pattern, its match, and the reason for a missing match</title>\n"
        f"<style>{STYLE}</style>\n<rect class='background' width='{WIDTH_PX}' height='{bottom:.0f}'/>\n"
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _x(moment: datetime) -> float:
    first = datetime.fromisoformat(EVENTS[0]["ts"])
    last = datetime.fromisoformat(EVENTS[-1]["ts"])
    return LEFT_PX + 50 + (moment - first) / (last - first) * (RIGHT_PX - LEFT_PX - 110)


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text class='t {style}' x='{x:.0f}' y='{y:.0f}'>{escape(text)}</text>"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(picture(), encoding="utf-8")
