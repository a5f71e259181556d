"""Generate traces of the joints of bodies that move the right arm in a circle: the gesture case of paper 2, Section 7.4.

A cycle has 12 frames. Forward, the arm comes down from the right and goes up on the left: in every cycle it is stretched to
the right at shoulder height in frame 0, to the left in frame 6, and above the head in frames 8 to 10. Therefore each cycle
has six events: a posture is found and lost, another posture is found and lost, and the hand above the head is found and lost.
Backward, the same frames are in the opposite order.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from perseid.runtime.arrays import FloatArray, IntArray

CYCLE = 12
FRAMES_PER_SECOND = 25
BEGIN = dt.datetime(2026, 3, 1, 9, tzinfo=dt.UTC)
JOINTS: dict[str, tuple[float, float]] = {
    "head": (0.0, 1.76), "neck": (0.0, 1.50), "spine": (0.0, 1.10), "hips": (0.0, 0.95),
    "left_shoulder": (-0.2, 1.40), "left_elbow": (-0.27, 1.12), "left_wrist": (-0.30, 0.90), "left_hand": (-0.30, 0.83),
    "right_shoulder": (0.2, 1.40), "right_elbow": (0.5, 1.40), "right_wrist": (0.70, 1.40), "right_hand": (0.77, 1.40),
    "left_hip": (-0.12, 0.92), "left_knee": (-0.14, 0.50), "left_ankle": (-0.15, 0.08), "left_foot": (-0.18, 0.02),
    "right_hip": (0.12, 0.92), "right_knee": (0.14, 0.50), "right_ankle": (0.15, 0.08), "right_foot": (0.18, 0.02),
}  # fmt: skip
"""The 20 control points of a body with a stretched right arm, in meters; y points up."""
BONES = (
    ("head", "neck"), ("neck", "spine"), ("spine", "hips"),
    ("neck", "left_shoulder"), ("left_shoulder", "left_elbow"), ("left_elbow", "left_wrist"), ("left_wrist", "left_hand"),
    ("neck", "right_shoulder"), ("right_shoulder", "right_elbow"), ("right_elbow", "right_wrist"), ("right_wrist", "right_hand"),
    ("hips", "left_hip"), ("left_hip", "left_knee"), ("left_knee", "left_ankle"), ("left_ankle", "left_foot"),
    ("hips", "right_hip"), ("right_hip", "right_knee"), ("right_knee", "right_ankle"), ("right_ankle", "right_foot"),
)  # fmt: skip
"""Pairs of joints that are connected by a bone."""
ARM = (("right_elbow", 0.30), ("right_wrist", 0.50), ("right_hand", 0.57))
"""The joints that move in a circle, with their distances from the shoulder in meters when the arm is straight."""
BENT_FRAME, BEND = 3, 60.0
"""In the lowest frame the forearm is bent backward, by this number of degrees."""
_KINDS = {"head": "Head", "right_hand": "RightHand", "right_elbow": "RightElbow", "right_shoulder": "RightShoulder"}


def body_parts() -> list[dict[str, object]]:
    """Initial changes of every body: its joints, each with four attributes that no frame sets."""
    changes: list[dict[str, object]] = [{"change": "create", "element": "body", "kind": "Body"}]
    for joint in JOINTS:
        changes.append({"change": "create", "element": joint, "kind": _KINDS.get(joint, "OtherJoint")})
        changes.append({"change": "link", "element": "body", "kind": "joint", "target": joint})
        for attribute, value in (("z", 2.5), ("image_x", 320.0), ("image_y", 240.0), ("sureness", 1.0)):
            changes.append({"change": "set", "element": joint, "attribute": attribute, "value": value})
    return changes


def body_columns() -> dict[str, tuple[str, str]]:
    """Attribute that each column of a frame sets: x and y of every joint, 40 elementary changes."""
    return {f"{joint}_{axis}": (joint, axis) for joint in JOINTS for axis in ("x", "y")}


def traces(bodies: int, frames: int, *, seed: int = 0, backward: bool = False, recorded: bool = False) -> pa.Table:
    """Generate frames of bodies at 25 frames per second, ordered by time and then by body.

    Bodies differ in height, place, and position in the cycle. ``recorded`` adds the noise of a recording: joints tremble,
    and the speed of the arm varies.
    """
    random = np.random.default_rng(seed)
    offset = phases(bodies, seed)
    tall, across = random.uniform(0.92, 1.08, bodies), random.uniform(-3.0, 3.0, bodies)
    shape = (frames, bodies)
    turn = np.arange(frames)[:, None] + offset[None, :]
    step = (-turn if backward else turn) % CYCLE
    degrees = -360.0 / CYCLE * step.astype(np.float64)
    if recorded:
        degrees += np.clip(random.normal(0.0, 1.5, shape), -4.0, 4.0)
    bend = np.where(step == BENT_FRAME, BEND, 0.0)
    began = int(BEGIN.timestamp()) * 1_000_000
    columns: dict[str, pa.Array] = {
        "person": pa.array(np.broadcast_to(np.arange(bodies, dtype=np.int64), shape).reshape(-1)),
        "ts": pa.array(np.repeat(began + np.arange(frames) * (1_000_000 // FRAMES_PER_SECOND), bodies)).cast(
            pa.timestamp("us", "UTC")
        ),
    }
    for joint, place in JOINTS.items():
        x, y = _joint(joint, place, degrees, bend)
        for axis, values, begin in (("x", x, across), ("y", y, np.zeros(bodies))):
            positions = np.broadcast_to(values * tall + begin, shape)
            if recorded:
                positions = positions + np.clip(random.normal(0.0, 0.004, shape), -0.012, 0.012)
            columns[f"{joint}_{axis}"] = pa.array(np.ascontiguousarray(positions).reshape(-1))
    return pa.table(columns)


def phases(bodies: int, seed: int) -> IntArray:
    """Position in the cycle at which each body begins; the first body begins at 0."""
    found = np.random.default_rng((seed, bodies)).integers(0, CYCLE, bodies)
    found[:1] = 0
    return found


def _joint(
    joint: str, place: tuple[float, float], degrees: FloatArray, bend: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Positions of a joint in each frame, for a body of average height."""
    reach = dict(ARM)
    if joint not in reach:
        return np.full((1, 1), place[0]), np.full((1, 1), place[1])
    upper, (x, y) = reach["right_elbow"], JOINTS["right_shoulder"]
    arm, forearm = np.radians(degrees), np.radians(degrees - bend)
    beyond = reach[joint] - upper
    return (
        x + upper * np.cos(arm) + beyond * np.cos(forearm),
        y + upper * np.sin(arm) + beyond * np.sin(forearm),
    )


def expected(bodies: int, frames: int, *, seed: int = 0, backward: bool = False) -> tuple[int, int]:
    """Number of atomic events and of gestures in these traces, computed from the positions in the cycle only."""
    events = gestures = 0
    for offset in phases(bodies, seed).tolist():
        for first, last in ((0, 0), (6, 6), (8, 10)):
            taken = [first <= step <= last for step in _steps(offset, frames, backward)]
            events += sum(a != b for a, b in zip([False, *taken], taken, strict=False))
        gestures += _gestures(_steps(offset, frames, backward), backward)
    return events, gestures


def _steps(offset: int, frames: int, backward: bool) -> list[int]:
    return [(-(i + offset) if backward else i + offset) % CYCLE for i in range(frames)]


def _gestures(steps: list[int], backward: bool) -> int:
    """Number of complete gestures: from the frame of the first posture to the frame after the second, seven frames later."""
    first = 6 if backward else 0
    return sum(step == first and at + 7 < len(steps) for at, step in enumerate(steps))
