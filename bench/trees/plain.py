"""``python -m bench.trees.plain QUERY=FILE…``: times the matcher, one line of JSON for each query.

Without a query (``=FILE``) the pattern matches no element, so that the time is that of the scanner.
Run it with ``PERSEID_NUMBA=0``, which turns off the compiler, so that the kernels run as plain Python.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.trees.benchmark import matcher_of, ours
from bench.trees.queries import QUERIES
from perseid.runtime.jit import COMPILED

NO_MATCH = "//no-such-element"


def main(arguments: Sequence[str]) -> None:
    """Run each query once, and print its time as soon as it is known."""
    if COMPILED:
        raise SystemExit("Set PERSEID_NUMBA=0: the kernels of this process are compiled.")
    for argument in arguments:
        name, _, file = argument.partition("=")
        matcher = matcher_of([QUERIES[name].text if name else NO_MATCH])
        begun = time.perf_counter()
        (results,) = ours(matcher, Path(file), trusted=False)
        taken = time.perf_counter() - begun
        print(json.dumps({"argument": argument, "seconds": taken, "results": results}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
