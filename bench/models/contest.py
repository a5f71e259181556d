"""``python -m bench models``: what an update of a live model takes as the model grows, beside asking everything anew.

Everything anew is asked in two ways, both over the graph as it stands, so that building it is in neither. ``by hand`` is a
program written for that one question, the fastest we have; ``engine`` is the same text of a query, given to a fresh network.
The second is what there is when nobody writes programs, as in the Train Benchmark; the first is printed beside it always.
"""

from __future__ import annotations

from pathlib import Path

from bench.harness import Report, say
from bench.models import inline, railway, social, trains, ttc
from bench.models.charts import draw

SOCIAL_SIZES = {"quick": (1, 2, 4, 8), "standard": ttc.SIZES, "full": ttc.SIZES}
RAILWAY_SIZES = {"quick": (1, 2, 4), "standard": (1, 4, 16, 64), "full": railway.SIZES}
ROUNDS = {"quick": 2, "standard": 2, "full": 5}
UPDATES = {"quick": 30, "standard": 100, "full": 300}


def run(size: str, out: Path | None) -> Report:
    report = Report("models", size)
    points = social.measure(SOCIAL_SIZES[size], ROUNDS[size], report)
    points += trains.measure(RAILWAY_SIZES[size], UPDATES[size], report)
    inline.measure(RAILWAY_SIZES[size], report)
    for path in draw(points, out) if out is not None else ():
        say(f"written: {path}")
    return report
