"""``python -m bench models``: time of an update of a live model as it grows, compared with evaluation from scratch.

Evaluation from scratch has two forms, both over the current graph, so that neither includes building it. ``by hand`` is
a program written for one query, the fastest we have; ``engine`` is the same query text in a fresh network. The second
is what exists without such programs, as in the Train Benchmark; the first is always printed with it.
"""

from __future__ import annotations

from pathlib import Path

from bench.harness import Report, print_line
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
        print_line(f"written: {path}")
    return report
