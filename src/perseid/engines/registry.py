"""The engines there are, by name: drivers and tests ask here and name none."""

from __future__ import annotations

from perseid.engines.contract import Engine, StateReport
from perseid.engines.state import shown, unseal
from perseid.errors import StateError


def engines() -> dict[str, Engine]:
    """Every engine; each is imported only when asked for, because its kernels may have to be compiled."""
    from perseid.engines.disorder.engine import ADAPTIVE, AGGRESSIVE, ASSEMBLE, CONSERVATIVE, EARLY
    from perseid.engines.joins.engine import JOINS
    from perseid.engines.models.engine import MODELS, RULES
    from perseid.engines.sequence.engine import SEQUENCE
    from perseid.engines.trees.engine import TREES
    from perseid.engines.uncertain.engine import UNCERTAIN

    known = (SEQUENCE, AGGRESSIVE, ASSEMBLE, EARLY, ADAPTIVE, CONSERVATIVE, TREES, JOINS, UNCERTAIN, MODELS, RULES)
    return {engine.name: engine for engine in (*known, *_others)}


def stepping() -> dict[str, Engine]:
    """Those that have a step: the others only make rows of rows before it."""
    return {name: engine for name, engine in engines().items() if engine.step is not None}


def answering(asked: str) -> dict[str, Engine]:
    """Those of them that are asked this."""
    return {name: engine for name, engine in stepping().items() if engine.asks == asked}


def report_of(state: bytes) -> StateReport:
    """What a state holds, whichever engine's it is."""
    said = unseal(state).facts.get("engine")
    for engine in stepping().values():
        if said == (engine.keeps or engine.name) and engine.report is not None:
            return engine.report(state)
    raise StateError(
        f"The state is of an engine that is not known here: {shown(said)}.",
        hint="Read it with the version that wrote it, and with the package that has the engine.",
    )


_others: list[Engine] = []


def register(engine: Engine) -> None:
    """Let drivers and the contract know an engine of another package."""
    if engine.name in engines():
        raise ValueError(f"There is an engine {engine.name!r}.")
    _others.append(engine)
