"""A job: sources, patterns and sinks from one file, run as one streaming query that can be killed at any moment."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from perseid import settings  # noqa: F401 - raises the error for a missing extra

if TYPE_CHECKING:
    from perseid.jobs.assembly import assemble
    from perseid.jobs.job_plan import JobError
    from perseid.jobs.reading import JobFileError, read_job
    from perseid.jobs.rule_loading import load_patterns
    from perseid.jobs.runner import JobRunner

__all__ = ["JobError", "JobFileError", "JobRunner", "assemble", "load_patterns", "read_job"]

_MODULES = {
    "JobError": "perseid.jobs.job_plan",
    "JobFileError": "perseid.jobs.reading",
    "JobRunner": "perseid.jobs.runner",
    "assemble": "perseid.jobs.assembly",
    "load_patterns": "perseid.jobs.rule_loading",
    "read_job": "perseid.jobs.reading",
}
"""Public names by the module that defines them, which imports this package."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
