"""``python -m bench.trees.peak PATTERN FILE``: the most memory, in MB, that one pass over a document takes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from bench.trees.contest import matcher_of, ours

if __name__ == "__main__":
    ours(matcher_of([sys.argv[1]]), Path(sys.argv[2]), trusted=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
