"""Bounds on the calls of an engine: each returns or raises a typed error within its processor time."""

from __future__ import annotations

import faulthandler
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from perseid.errors import PerseidError

CPU_BOUND_S = {"pattern": 5.0, "default budget": 20.0, "state": 5.0, "document": 10.0, "model": 20.0}
"""Processor time of one call in seconds, by kind of input. Other load on the machine does not count.

A loop without progress exceeds any bound.
"""
WALL_BOUND_S = 120.0
"""Time after which SIGALRM interrupts a call that runs Python code."""
EXIT_AFTER_S = 240.0
"""Time after which faulthandler ends the process. A compiled kernel runs no signal handler, so SIGALRM, which pytest-timeout
uses too, does not interrupt it. The log file then has the input and the tracebacks of all threads."""
RESULT = "result"

Call = Callable[[], Any]
Calls = Generator[Call, Any, str | None]
"""Calls of one input, in order. Each one receives the result of the previous call, or its typed error.

The generator returns its outcome, with None for a result.
"""


@dataclass(frozen=True)
class Adversarial:
    """One input: its kind, a description for messages, and its calls."""

    kind: str
    describe: Callable[[], str]
    calls: Calls


def run_calls(calls: Calls, run: Callable[[Call], Any] = lambda call: call()) -> str:
    """Run all calls of an input and return its outcome. A typed error that the generator does not handle is raised."""
    result: Any = None
    error: PerseidError | None = None
    while True:
        try:
            call = calls.send(result) if error is None else calls.throw(error)
        except StopIteration as done:
            return done.value or RESULT
        result, error = None, None
        try:
            result = run(call)
        except PerseidError as typed:
            error = typed


def run_input(one: Adversarial) -> str:
    """Run all calls of an input within their bounds; return its outcome, or the name of the typed error that ended it."""

    def run(call: Call) -> Any:
        begun = time.process_time()
        try:
            with wall_bound():
                return call()
        finally:
            taken = time.process_time() - begun
            if taken > CPU_BOUND_S[one.kind]:
                raise TimeoutError(f"{taken:.1f} s of processor time, more than {CPU_BOUND_S[one.kind]} s")

    try:
        return run_calls(one.calls, run)
    except PerseidError as error:
        return type(error).__name__


@contextmanager
def wall_bound() -> Iterator[None]:
    """Raise TimeoutError in a call that exceeds WALL_BOUND_S, and resume the timer of pytest afterwards."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not finished after {WALL_BOUND_S} s")

    handler = signal.signal(signal.SIGALRM, stop)
    begun = time.monotonic()
    outer, _ = signal.setitimer(signal.ITIMER_REAL, WALL_BOUND_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, max(outer - (time.monotonic() - begun), 0.001))


def run_inputs(name: str, make: Callable[[int], Adversarial], seeds: Iterable[int], log: Path) -> Counter[str]:
    """Run the input of each seed and count the outcomes, as ``kind: outcome``."""
    outcomes: Counter[str] = Counter()
    with log.open("w", encoding="utf-8") as written:
        for seed in seeds:
            one = make(seed)
            _note(written, f"{name}, seed {seed}, {one.kind}: {one.describe()}\n")
            faulthandler.dump_traceback_later(EXIT_AFTER_S, exit=True, file=written)
            try:
                outcomes[f"{one.kind}: {run_input(one)}"] += 1
            except Exception as error:
                raise AssertionError(
                    f"engine {name}, seed {seed}, {one.kind}: {error!r} for\n{one.describe()}"
                ) from error
            finally:
                faulthandler.cancel_dump_traceback_later()
    return outcomes


def _note(written: IO[str], text: str) -> None:
    written.seek(0)
    written.truncate()
    written.write(text)
    written.flush()
