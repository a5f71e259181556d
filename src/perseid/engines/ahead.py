"""``python -m perseid.engines.ahead [ENGINE…]``: compile kernels ahead, of all engines or of some.

Kernels are compiled when they are first imported and kept in the cache folder. An image that is built with them there
starts its first worker in a second, and not in minutes.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import perseid.engines


def modules(engines: Sequence[str] = ()) -> list[str]:
    """Every module of the engines that are named, or of all; also those that engines share."""
    found = (one.name for one in pkgutil.walk_packages(perseid.engines.__path__, "perseid.engines."))
    wanted = tuple(f"perseid.engines.{name}." for name in engines)
    return sorted(name for name in found if name != __name__ and (not engines or name.startswith(wanted)))


def main(engines: Sequence[str]) -> int:
    """Import them all: that compiles."""
    named = modules(engines)
    if not named:
        sys.stderr.write(f"There is no engine {', '.join(engines)}.\n")
        return 2
    for name in named:
        importlib.import_module(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
