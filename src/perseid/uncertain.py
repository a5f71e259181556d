"""Uncertain streams: models of readings, output policies for probabilities, sampling."""

from __future__ import annotations

from perseid.api.uncertain import learn
from perseid.engines.uncertain.output_policies import OutputPolicy, above, alerts, expected, spans
from perseid.engines.uncertain.results import UncertainMatches
from perseid.engines.uncertain.stream import UncertainEvents
from perseid.engines.uncertain.streams import Sampling
from perseid.semantics.hidden import HiddenMarkov, floor_plan, hidden_markov

__all__ = [
    "HiddenMarkov",
    "OutputPolicy",
    "Sampling",
    "UncertainEvents",
    "UncertainMatches",
    "above",
    "alerts",
    "expected",
    "floor_plan",
    "hidden_markov",
    "learn",
    "spans",
]
