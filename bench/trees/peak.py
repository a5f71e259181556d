"""``python -m bench.trees.peak PATTERN FILE``: peak memory, in MB, of one pass over a document."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bench.trees.benchmark import matcher_of, ours

if __name__ == "__main__":
    ours(matcher_of([sys.argv[1]]), Path(sys.argv[2]), trusted=False)
    # Other process statistics include the memory of the parent process.
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    print(int(found[1]) / 1024)
