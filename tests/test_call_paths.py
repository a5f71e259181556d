"""Upper bounds on the functions and files of Perseid that process one event, so that its path through the code stays short."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pyarrow as pa

import perseid as ps
from perseid.engines.sequence.engine import SEQUENCE
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from perseid.semantics import types as t

PACKAGE = str(Path(ps.__file__).parent)
KERNEL_CALLS = str(Path(PACKAGE, "runtime", "jit.py"))
SECOND = 1_000_000
BODIES = (
    "<item><author>ann</author><title>Storm ahead</title></item>",
    "<item><author>bob</author><title>Storm ahead</title></item>",
)
COPIES = "Feed//item->a[/title->t] FOLLOWED BY{t = u, 1 hour} Feed//item->b[/title->u]"


def count_calls(run: Callable[[], object]) -> tuple[int, int]:
    """Return the numbers of distinct functions and files that a second run calls. A kernel counts as its caller."""
    called: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename == KERNEL_CALLS:
            return
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            called.add((code.co_filename, code.co_qualname))

    run()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    print(len(called), "functions in", len({file for file, _ in called}), "files")
    return len(called), len({file for file, _ in called})


def check_step_of_two_events(watermark: Watermark, max_functions: int, max_files: int) -> None:
    pattern = ps.pattern("""
        pattern rise
        match  A a -> B b
        where  a.v < b.v
        within 10 seconds
        partition by user
        return a.v as first
    """)
    arrow = {"user": pa.string(), "v": pa.int64()}
    compiled = SEQUENCE.plan(pattern.sources.compile(), {"user": t.String(), "v": t.Integer()}, arrow=arrow)
    plan = pickle.loads(pickle.dumps(compiled))
    user = pa.array(["u", "u"])
    columns = {"user": user, "v": pa.array([1, 2])}
    batch = EventBatch(
        np.array([0, 5 * SECOND]),
        np.array([0, 1], np.int32),
        ["A", "B"],
        columns,
        {0: {"user": user}},
        np.array([1, 2]),
    )
    functions, files = count_calls(lambda: SEQUENCE.run_step(plan, batch, None, watermark))
    assert functions <= max_functions
    assert files <= max_files


def test_functions_per_row_of_a_batch_are_bounded() -> None:
    check_step_of_two_events(Watermark(None, None, True), 80, 15)


def test_functions_per_row_of_a_stream_are_bounded() -> None:
    check_step_of_two_events(Watermark(None, 100 * SECOND, False), 90, 18)


def test_functions_per_document_of_a_subscription_are_bounded() -> None:
    feeds = [{"n": n, "at": 600 * n, "feed": "Feed", "xml": body} for n, body in enumerate(BODIES)]
    documents = ps.documents(feeds, body="xml", type="feed", time="at")
    subscriptions = ps.xscl.subscriptions({"copies": COPIES})
    assert subscriptions.match(documents).num_rows == 1
    functions, files = count_calls(lambda: subscriptions.match(documents))
    assert functions <= 115
    assert files <= 27
