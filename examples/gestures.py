"""Who waved the slides on? Bodies that a camera follows, their postures as queries over a live model, their gestures as patterns.

Run it where perseid is installed: python examples/gestures.py [bodies] [picture.svg]

Paper 2's second case: a frame sets x and y of the 20 joints of a body, 25 times a second. A posture is a query over the joints,
which is found when the body takes it and lost when it leaves it; a gesture is a pattern over these, body by body.
"""

import sys
from pathlib import Path

import perseid as ps
from perseid.testing import gestures

FRAMES = 36


def main() -> None:
    bodies = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    model = ps.metamodel(Path(__file__).with_name("gestures.perseid").read_text(encoding="utf-8"))
    onwards = gestures.traces(bodies, FRAMES, recorded=True)
    back = gestures.traces(bodies, FRAMES, backward=True, recorded=True)
    for title, table in (("the arm goes round forwards", onwards), ("and backwards", back)):
        found = detected(model, table)
        print(f"{title}: {bodies} bodies, {FRAMES} frames each, {len(found)} gestures")
        for one in found:
            print(f"  person {one['person']}  {one['pattern']:8}  {one['began']:%S.%f} to {one['ended']:%S.%f}")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(picture(model), encoding="utf-8")
        print(f"drawn: {sys.argv[2]}")


def frames_of(model: ps.Metamodel, table: object) -> ps.Frames:
    """The table as frames of bodies; that a hand is raised is an event too, and noise to both gestures."""
    return ps.frames(
        table, model, each=gestures.body_parts(), columns=gestures.body_columns(), key="person", observe="raised"
    )


def detected(model: ps.Metamodel, table: object) -> list[dict]:
    stream = frames_of(model, table)
    found = [one for pattern in ps.patterns(model) for one in pattern.match(stream).to_dicts()]
    return sorted(found, key=lambda one: (one["ended"], one["person"]))


def picture(model: ps.Metamodel) -> str:
    """One cycle of one body, with what it does written below."""
    table = gestures.traces(1, gestures.CYCLE, recorded=True)
    events = frames_of(model, table).events("forward_start", "forward_end", "raised")
    return gestures.filmstrip(table, 0, events, detected(model, table))


if __name__ == "__main__":
    main()
