"""Declaration of uncertain streams: rows with probabilities, or readings with a hidden Markov model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perseid.api.keywords import OPTIONS, Collected, check_keywords_with
from perseid.api.local_inputs import reusable_rows
from perseid.api.stream_options import StreamOptions, require_options
from perseid.api.streams import Data, bound_data, lateness_us, max_ahead_us
from perseid.deprecated import SAMPLING_NAMES
from perseid.engines.uncertain.declaration import read_columns, read_inference, read_table, step_us
from perseid.engines.uncertain.stream import UncertainEvents
from perseid.engines.uncertain.streams import Inference, Known, Sampling
from perseid.errors import EventDataError, type_name
from perseid.semantics.hidden import HiddenMarkov
from perseid.tables.column_names import ColumnName, ColumnNames


def _sampling(found: Mapping[str, Any]) -> Sampling:
    """The object that replaces ``epsilon=``, ``delta=``, ``seed=`` and ``method=``."""
    method = found.get("method", "auto")
    if method not in ("auto", "sample"):
        raise EventDataError(f"method={method!r}: expected 'auto' or 'sample'.")
    return Sampling(**{name: one for name, one in found.items() if name != "method"}, always=method == "sample")


@check_keywords_with({"options": OPTIONS, "sampling": Collected(SAMPLING_NAMES, "ps.uncertain.Sampling", _sampling)})
def uncertain_events(
    data: Data,
    *,
    event_type: str,
    key: ColumnNames = (),
    value: ColumnNames,
    probability: ColumnName | None = None,
    previous: ColumnNames | None = None,
    reading: ColumnName | None = None,
    likelihood: ColumnName | None = None,
    model: HiddenMarkov | None = None,
    inference: str | Inference = "filter",
    correlated: bool = True,
    reading_timeout: str | dt.timedelta | None = None,
    time: ColumnName = "ts",
    every: str | dt.timedelta | None = None,
    sampling: Sampling | None = None,
    prune: float = 0.0,
    lateness: str | dt.timedelta | None = None,
    max_ahead: str | dt.timedelta | None = None,
    options: StreamOptions | None = None,
) -> UncertainEvents[Data]:
    """Declare an uncertain stream: its events have values with probabilities, and results of patterns are probabilities.

    ``event_type`` is the event type that steps of patterns name. ``key`` names the key columns; keys are independent of
    each other, and without ``partition by`` a pattern matches for any key. ``value`` names the uncertain columns.
    There are three kinds of rows:

    - a distribution for each step: ``probability`` names the column with the probability of each value. The rest up to 1 is
      the probability of no event;
    - a transition table for each step: ``previous`` names the columns with the value of the previous step, null for no
      event, and ``probability`` is conditional on this value;
    - readings and a hidden Markov ``model`` (:func:`perseid.uncertain.hidden_markov`): ``reading`` names the column with the
      reading, null for none, or ``likelihood`` names a column with the
      list of probabilities of the reading, one for each value of the model.
      ``inference`` selects the algorithm: ``"filter"`` uses readings up to each step, ``"lag(5)"`` those of five more steps,
      ``"smooth"`` all of them; ``"likeliest"`` takes the most probable value of each step as certain, ``"viterbi"`` the most
      probable path; ``"particles(1000)"`` is a particle filter. A step without a row
      counts as a reading of null for up to ``reading_timeout`` after the last row.

    ``every`` is the length of a step, as in ``"1 second"``: rows of one step are simultaneous. Without it every distinct
    time is a step. With ``correlated=False`` steps are independent, as in the real-time algorithm of the paper.

    Inference is exact for the patterns that allow it, which ``explain`` shows, and otherwise by ``sampling``
    (:class:`perseid.uncertain.Sampling`). ``prune`` is a bound: states of a pattern with a lower probability
    are dropped, and ``error`` includes the dropped probability. The other
    parameters are those of :func:`events`; of ``options``, ``max_steps`` and ``max_matches`` have no effect.
    """
    stream_options = require_options(options)
    columns = read_columns(event_type, key, value, probability, previous, reading, likelihood, time)
    part = read_table(
        reusable_rows(data), columns, model, read_inference(inference), correlated, reading_timeout, every
    )
    if isinstance(prune, bool) or not isinstance(prune, (int, float)) or not 0 <= prune < 1:
        raise EventDataError(f"prune={prune!r}: expected a number from 0 to below 1.")
    if prune and part.stream.known is Known.READ and part.stream.hidden and part.stream.inference.name != "smooth":
        raise EventDataError(
            f"prune= is unsupported with inference={str(part.stream.inference)!r}: the error of pruned weights is unknown, "
            "since later readings can make them probable.",
            hint="Remove prune=, or use inference='smooth'.",
        )
    if sampling is not None and not isinstance(sampling, Sampling):
        raise EventDataError(
            f"sampling= expected Sampling, got {type_name(sampling)}.",
            hint="Use sampling=ps.uncertain.Sampling(epsilon=0.05).",
        )
    delay, bound = lateness_us(lateness), max_ahead_us(max_ahead)
    part = replace(part, data=bound_data(part.data, columns.time, bound, delay))
    return UncertainEvents(
        (part,), (), step_us(every), sampling or Sampling(), float(prune), stream_options.idle_us, stream_options.shards, stream_options.max_state, bound
    )  # fmt: skip
