"""Hypothesis profiles (HYPOTHESIS_PROFILE is ``ci``, the default, ``long`` or ``deep``); distribution and time of test files."""

from __future__ import annotations

import atexit
import gc
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.scheduling import FileScheduling

os.environ.setdefault("PERSEID_PROGRESS", "0")  # tests of the progress line enable it

settings.register_profile(
    "ci", derandomize=True, max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
for name, examples in (("long", 2_000), ("deep", 10_000)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SLOWEST_FILES = 80


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    """Distribute tests by file, unless another distribution is selected."""
    from tests.scheduling import FileScheduling

    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Exclude modules and test items from garbage collections, which would traverse them again and again."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else modules written in C++ report their objects as leaks


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest test files with --durations, because many fast tests together can be slow."""
    if not terminalreporter.config.getoption("durations"):
        return
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0]] += report.duration
    terminalreporter.section(f"slowest {SLOWEST_FILES} files of {sum(seconds.values()):.0f} s")
    for file, spent in seconds.most_common(SLOWEST_FILES):
        terminalreporter.write_line(f"{spent:.2f}s {file}")
