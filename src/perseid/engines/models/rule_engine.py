"""Rules over a shard of models, with the same transactions and iterations as in a local run.

Changes that rules make to their own model are applied in its shard, within the call; the action log has all effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.models.action_log import ActionLog, action_log_schema
from perseid.engines.models.pattern_trigger import PatternTrigger, plan_triggers
from perseid.engines.models.plan import ModelsPlan, make_plan
from perseid.engines.models.rule_run import RuleRun
from perseid.engines.models.shard import accept, by_time, decode_shard, encode_shard, ready
from perseid.engines.models.state import ModelsState
from perseid.engines.models.transactions import Key
from perseid.engines.models.trigger_state import decode_triggers, encode_triggers
from perseid.engines.sequence.columns import arrow_type
from perseid.engines.sequence.schema import arrow_of
from perseid.errors import UnsupportedError
from perseid.lang import rules as r
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from perseid.semantics import types as t
from perseid.semantics.model_queries import ANode
from perseid.semantics.model_rules import CHANGES, ROUNDS
from perseid.semantics.model_steps import EventStreamFilter
from perseid.semantics.rules import Rules, emitted_sorts


@dataclass(frozen=True, kw_only=True)
class ReactingPlan(ModelsPlan):
    """Rules over models, and the patterns that trigger them."""

    rules: Rules
    patterns: tuple[tuple[Plan, EventStreamFilter], ...]
    """The trigger patterns, compiled for event-by-event evaluation."""
    until: int | None = None
    rounds: int = ROUNDS
    changes: int = CHANGES

    @cached_property
    def digest(self) -> str:
        """Hash of all that a state depends on: the models and the triggers. The actions of rules may change."""
        trigger_patterns = [
            (pattern.name, pattern.pattern.semantic_hash) for plan, _ in self.patterns for pattern in plan.patterns
        ]
        return self.digest_of(
            "rules", self.reported_queries, trigger_patterns, [watched.signature() for _, watched in self.patterns]
        )

    @cached_property
    def reported_queries(self) -> tuple[str, ...]:
        """The queries that trigger rules, or with matches read by patterns that do."""
        trigger_queries = [rule.trigger.query for rule in self.rules.rules if isinstance(rule.trigger, r.OnQuery)]
        watched = [name for _, one in self.patterns for name in one.queries]
        return tuple(sorted({*trigger_queries, *watched}))


def make_rules_plan(
    rules: Rules,
    types: Mapping[str, pa.DataType],
    *,
    time: str,
    columns: Mapping[str, str],
    key: Sequence[str] = (),
    order_by: Sequence[str] = (),
    until: int | None = None,
    rounds: int = ROUNDS,
    changes: int = CHANGES,
) -> ReactingPlan:
    """Plan rules over changes with columns of these types; ``columns`` maps roles to the stream's column names."""
    patterns = tuple(plan_triggers(rules, key))
    base = make_plan([(watched, plan) for plan, watched in patterns], rules.queries, types, key=key, order_by=order_by)
    _emitted_types(rules, base)
    schema = action_log_schema(time, {name: types[name] for name in key}, columns, base.element)
    return ReactingPlan(
        base.queries, base.key, base.order_by, base.types, base.groups, schema,
        rules=rules, patterns=patterns, until=until, rounds=rounds, changes=changes,
    )  # fmt: skip


def emitted_types(
    rules: Rules, types: Mapping[str, pa.DataType], key: Sequence[str]
) -> dict[str, dict[str, pa.DataType]]:
    """Return the Arrow types of emitted columns by row name; ``types`` are those of node names and of the key."""
    patterns = plan_triggers(rules, key)
    return _emitted_types(rules, make_plan([(one, plan) for plan, one in patterns], rules.queries, types, key=key))


def _emitted_types(rules: Rules, base: ModelsPlan) -> dict[str, dict[str, pa.DataType]]:
    returned: dict[str, dict[str, t.Type]] = {}
    for group in base.groups:
        for pattern in group.sequence.plan.patterns:
            names = rules.parameters.get(pattern.name, ())
            schema = group.sequence.schema
            returned[pattern.name] = {
                name: arrow_type(schema.field(name).type) for name in names if name in schema.names
            }
    found: dict[str, dict[str, pa.DataType]] = {}
    for name, columns in emitted_sorts(rules, returned).items():
        for column, sort in columns.items():
            kind = base.element if isinstance(sort, ANode) else arrow_of(sort.type)
            kind = pa.string() if kind is None or pa.types.is_null(kind) else kind
            if pa.types.is_nested(kind) or pa.types.is_binary(kind):
                raise UnsupportedError(
                    f"Column {column!r} of {name} is {sort.type}, and rules emit only single values that can be converted to text.",  # type: ignore[union-attr]
                    hint="Emit a part of it: a number, a string, a timestamp.",
                )
            found.setdefault(name, {})[column] = kind
    return found


@dataclass(slots=True)
class Running(ModelsState):
    """State of a shard between calls, with the triggers of each model."""

    triggers: dict[Key, PatternTrigger] = field(default_factory=dict)


def react(plan: ReactingPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Process one call of a shard: apply complete transactions, run the rules, and log their effects."""
    running = _running(plan, state)
    run = RuleRun(
        rules=plan.rules, patterns=plan.patterns, key=plan.key, reported=plan.reported_queries, models=running.models,
        triggers=running.triggers, until=plan.until, rounds=plan.rounds, changes=plan.changes, budget=plan.budget,
    )  # fmt: skip
    run.renew_budget()
    late, why, timely = by_time(rows, running, watermark)
    accept(plan, rows, timely, running)
    counted: Counter[str] = Counter(events=len(timely), late=len(late), bad=0, capped=-run.capped())
    log = ActionLog(plan.schema, [plan.types[name] for name in plan.key], plan.element)
    for key, time, iterations in chain(run.run(ready(running, watermark)), run.run_timers(watermark)):
        log.add(key, time, iterations)
        # Iteration 0 has the changes of the input, and none of a timer.
        counted["bad"] += len(iterations[0].effects.refused)
    running.pass_to(watermark)
    state = None
    if not watermark.ended:
        triggers = [running.triggers[key] for key in running.models]
        running.sequences = encode_triggers(plan.queries, plan.patterns, plan.types, plan.key, triggers, running.done)
        state = encode_shard(plan, running)
    counted["capped"] += run.capped()
    counted["matches"] = len(log.rows)
    counted["live_keys"] = len(running.models)
    counted["retained_events"] = len(running.buffered)
    counted["state_bytes"] = 0 if state is None else len(state)
    timers = running.first_times()
    # Rules act on a match that a deadline decides one microsecond after the deadline.
    timers += [timer + 1 for trigger in running.triggers.values() if (timer := trigger.next_timer()) is not None]
    return StepResult(log.table(), state, min(timers, default=None), dict(counted), late, why)


def _running(plan: ReactingPlan, state: bytes | None) -> Running:
    running = decode_shard(plan, state)
    if isinstance(running, Running):
        return running
    triggers = decode_triggers(
        plan.queries, plan.patterns, plan.types, plan.key, list(running.models), running.sequences
    )
    return Running(running.models, running.buffered, running.done, running.sequences, triggers=triggers)
