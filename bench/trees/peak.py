"""``python -m bench.trees.peak PATTERN FILE``: the most memory, in MB, that one pass over a document takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bench.trees.contest import matcher_of, ours

if __name__ == "__main__":
    ours(matcher_of([sys.argv[1]]), Path(sys.argv[2]), trusted=False)
    # What a process says of itself otherwise is also what its parent had before.
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    print(int(found[1]) / 1024)
