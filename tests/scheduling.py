"""Distribution of test files over the workers of pytest-xdist, with ``--dist loadfile``.

A worker runs all tests of a file, so that module fixtures, caches and compiled kernels are created once.
A Spark session is slow to start and to warm up, so one worker starts none while files without a session are left.

``--dist loadgroup`` does not group: with pytest 9.2, pytest-xdist 3.8 ignores the mark ``xdist_group``
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
SESSION = re.compile(r"\bSparkSession\b|\btests\.sessions\b")
SHORT_FOLDERS = ("tests/compile/", "tests/lang/", "tests/semantics/", "tests/viz/")
"""Folders with tests that start no process and compile no kernel. They run last, so that all workers end at about the same time."""


class FileScheduling(LoadFileScheduling):
    """Assigns the next suitable file to a worker, instead of the file with the most tests."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        has_session = self.nodes.index(node) < max(1, len(self.nodes) - 1)
        counts = {file: len(tests) for file, tests in self.workqueue.items()}
        self.workqueue.move_to_end(order_files(counts, has_session)[0], last=False)
        super()._assign_work_unit(node)


def order_files(counts: Mapping[str, int], has_session: bool) -> list[str]:
    """Order files by priority for a worker with or without a Spark session; ``counts`` has the number of tests of each file."""

    def rank(file: str) -> tuple[bool, bool, int, str]:
        return uses_session(file) != has_session, file.startswith(SHORT_FOLDERS), -counts[file], file

    return sorted(counts, key=rank)


@cache
def uses_session(file: str) -> bool:
    """Return whether the tests of a file use the Spark session of their worker."""
    return SESSION.search((ROOT / file).read_text(encoding="utf-8")) is not None
