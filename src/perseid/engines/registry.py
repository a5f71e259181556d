"""The engines there are, by name: drivers and tests ask here and name none."""

from __future__ import annotations

from perseid.engines.contract import Engine


def engines() -> dict[str, Engine]:
    """Every engine; each is imported only when asked for, because its kernels may have to be compiled."""
    from perseid.engines.disorder.engine import ADAPTIVE, AGGRESSIVE, ASSEMBLE, CONSERVATIVE, EARLY
    from perseid.engines.sequence.engine import SEQUENCE

    return {engine.name: engine for engine in (SEQUENCE, AGGRESSIVE, ASSEMBLE, EARLY, ADAPTIVE, CONSERVATIVE)}
