"""``python -m perseid.runtime.precompile [ENGINE…]``: compile the kernels of all engines, or of some, ahead of time.

Kernels are compiled on their first call and stored in the cache folder. An image that is built with them in the cache
starts its first worker in a second instead of minutes.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module

from perseid.runtime.cold_start import ENTRY_MODULES, mark_compiled
from perseid.runtime.jit import Kernel


def modules(engines: Sequence[str] = ()) -> list[str]:
    """Every module of the named engines; without names, of all engines and those that they share."""
    found = [*_below("perseid.engines"), *_below("perseid.runtime")]
    named = tuple(f"perseid.engines.{name}." for name in engines)
    return sorted(name for name in found if name != __name__ and (not engines or name.startswith(named)))


def _below(package: str) -> list[str]:
    return [one.name for one in pkgutil.walk_packages(import_module(package).__path__, f"{package}.")]


def main(engines: Sequence[str]) -> int:
    """Import the modules and compile their kernels."""
    named = modules(engines)
    if not named:
        sys.stderr.write(f"Unknown engine {', '.join(map(repr, engines))}.\n")
        return 2
    for name in named:
        for value in vars(import_module(name)).values():
            if isinstance(value, Kernel):
                value.compiled()
    for engine in ENTRY_MODULES:
        if not engines or engine in engines:
            _match_sample()
            mark_compiled(engine)
    return 0


def _match_sample() -> None:
    """Compile the kernels that have no signature for the types of columns that most inputs have."""
    perseid = import_module("perseid")
    pattern = perseid.pattern("pattern sample match A a -> B b within 1 hour partition by key, number return a.number")
    rows = [
        {"ts": f"2026-01-01T00:0{minute}:00Z", "type": kind, "key": "k", "number": 1, "value": 0.5}
        for minute, kind in enumerate("AB")
    ]
    pattern.match(rows).to_arrow()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
