"""Gesture detection: postures of bodies as queries over a live model, and gestures as patterns over the postures.

Run it where perseid is installed: python examples/gestures.py [bodies] [picture.svg]

This is the second case study of paper 2. A frame sets x and y of the 20 joints of a body, 25 times a second. A posture is a query over
the joints: it is found when the body takes the posture, and lost when the body leaves it. A gesture is a pattern over these events
of one body.
"""

import sys
from pathlib import Path

import gesture_frames
import pyarrow as pa
from skeletons import Detected, Posed, draw_skeletons

import perseid as ps

FRAMES = 36


def main() -> None:
    bodies = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    model = ps.graph.metamodel(Path(__file__).with_name("gestures.perseid").read_text(encoding="utf-8"))
    onwards = gesture_frames.traces(bodies, FRAMES, recorded=True)
    back = gesture_frames.traces(bodies, FRAMES, backward=True, recorded=True)
    for title, table in (("the arm goes round forwards", onwards), ("and backwards", back)):
        found = detected(model, table)
        print(f"{title}: {bodies} bodies, {FRAMES} frames each, {len(found)} gestures")
        for one in found:
            print(f"  person {one['person']}  {one['pattern']:8}  {one['began']:%S.%f} to {one['ended']:%S.%f}")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(picture(model), encoding="utf-8")
        print(f"drawn: {sys.argv[2]}")


def frames_of(model: ps.graph.Metamodel, table: object) -> ps.graph.Frames:
    """Declare the table as frames of bodies. A raised hand is an event, too, which no gesture uses."""
    return ps.graph.frames(
        table,
        model,
        each=gesture_frames.body_parts(),
        columns=gesture_frames.body_columns(),
        key="person",
        observe="raised",
    )


def detected(model: ps.graph.Metamodel, table: object) -> list[dict]:
    stream = frames_of(model, table)
    found = [one for pattern in ps.patterns(model) for one in pattern.match(stream).to_dicts()]
    return sorted(found, key=lambda one: (one["ended"], one["person"]))


def picture(model: ps.graph.Metamodel) -> str:
    """Draw one cycle of one body with its events."""
    table = gesture_frames.traces(1, gesture_frames.CYCLE, recorded=True)
    events = frames_of(model, table).events("forward_start", "forward_end", "raised")
    return filmstrip(table, 0, events, detected(model, table))


def filmstrip(frames: pa.Table, person: int, events: pa.Table, gestures: list[dict[str, object]]) -> str:
    """Draw one body, frame by frame, as SVG, with its postures and with its gestures, which have ``began`` and ``ended``."""
    rows = sorted((row for row in frames.to_pylist() if row["person"] == person), key=lambda row: row["ts"])
    told: dict[object, list[tuple[str, str]]] = {}
    for event in events.to_pylist():
        if event["person"] == person:
            change, query = event["_type"].split()
            told.setdefault(event["_time"], []).append((change, query))
    posed, standing = [], set[str]()
    for number, row in enumerate(rows):
        for change, query in told.get(row["ts"], ()):
            (standing.add if change == "found" else standing.discard)(query)
        happens = tuple(word for change, query in told.get(row["ts"], ()) for word in (query.replace("_", " "), change))
        joints = {joint: (row[f"{joint}_x"], row[f"{joint}_y"]) for joint in gesture_frames.JOINTS}
        posed.append(Posed(f"{number * 1000 // gesture_frames.FRAMES_PER_SECOND} ms", joints, bool(standing), happens))
    at = {row["ts"]: number for number, row in enumerate(rows)}
    brackets = [
        Detected(f"{one['pattern']} gesture", at[one["began"]], at[one["ended"]])
        for one in gestures
        if one["person"] == person
    ]
    limb = ("right_shoulder", *(joint for joint, _ in gesture_frames.ARM))
    return draw_skeletons("A body whose right arm goes round", posed, gesture_frames.BONES, limb, "head", brackets)


if __name__ == "__main__":
    main()
