"""What is told of probabilities: every step, those above a bound, alerts, or spans of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal["steps", "alerts", "spans"]


@dataclass(frozen=True)
class Telling:
    """How answers are told.

    ``steps``: a row for each step whose probability is above ``rise``. ``alerts``: a row when it rises to ``rise``, and no other
    until it has fallen below ``fall``. ``spans``: a row for each longest run of steps at ``rise`` or above, with its highest.
    """

    how: How = "steps"
    rise: float = 0.0
    fall: float = 0.0


EVERY = Telling()
