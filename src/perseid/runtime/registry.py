"""All engines by name. Drivers and tests look engines up here and import none themselves."""

from __future__ import annotations

from importlib import import_module

from perseid.errors import StateError
from perseid.runtime.contract import Engine, StateReport
from perseid.runtime.state_codec import decode_state, format_fact

BUILT_IN = {
    "perseid.engines.sequence.engine": ("SEQUENCE",),
    "perseid.engines.disorder.engine": ("AGGRESSIVE", "ASSEMBLE", "EARLY", "ADAPTIVE", "CONSERVATIVE"),
    "perseid.engines.trees.engine": ("TREES",),
    "perseid.engines.joins.engine": ("JOINS",),
    "perseid.engines.uncertain.engine": ("UNCERTAIN",),
    "perseid.engines.models.engine": ("MODELS", "RULES"),
}
"""Modules and the engines that they declare. They are imported on first use: their kernels may have to be compiled."""


def engines() -> dict[str, Engine]:
    """Every engine by name."""
    built_in = (getattr(import_module(module), name) for module, names in BUILT_IN.items() for name in names)
    return {engine.name: engine for engine in (*built_in, *_registered)}


def stateful_engines() -> dict[str, Engine]:
    """The engines that have a step; the others only prepare rows for one."""
    return {name: engine for name, engine in engines().items() if engine.step is not None}


def engines_for(query_kind: str) -> dict[str, Engine]:
    """The stateful engines that run queries of this kind."""
    return {name: engine for name, engine in stateful_engines().items() if engine.query_kind == query_kind}


def report_of(state: bytes) -> StateReport:
    """Summarize a state of any engine."""
    written_by = decode_state(state).facts.get("engine")
    for engine in stateful_engines().values():
        if written_by == (engine.state_format or engine.name) and engine.report is not None:
            return engine.report(state)
    raise StateError(
        f"Unknown engine {format_fact(written_by)} in the state.",
        hint="Read it with the version that wrote it, and install the package with the engine.",
    )


_registered: list[Engine] = []


def register(engine: Engine) -> None:
    """Add an engine of another package."""
    if engine.name in engines():
        raise ValueError(f"Engine {engine.name!r} is already registered.")
    _registered.append(engine)
