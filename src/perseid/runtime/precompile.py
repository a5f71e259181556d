"""``python -m perseid.runtime.precompile [ENGINE…]``: compile the kernels of all engines, or of some, ahead of time.

Kernels are compiled when they are first imported and kept in the cache folder. An image that is built with them there
starts its first worker in a second instead of minutes.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module


def modules(engines: Sequence[str] = ()) -> list[str]:
    """Every module of the named engines; without names, of all engines and those that they share."""
    found = [*_below("perseid.engines"), *_below("perseid.runtime")]
    named = tuple(f"perseid.engines.{name}." for name in engines)
    return sorted(name for name in found if name != __name__ and (not engines or name.startswith(named)))


def _below(package: str) -> list[str]:
    return [one.name for one in pkgutil.walk_packages(import_module(package).__path__, f"{package}.")]


def main(engines: Sequence[str]) -> int:
    """Compile by importing the modules."""
    named = modules(engines)
    if not named:
        sys.stderr.write(f"Unknown engine: {', '.join(engines)}.\n")
        return 2
    for name in named:
        import_module(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
