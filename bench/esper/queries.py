"""Esper's statements: for each query the fastest form found that returns the correct matches.

Streams per event type, so that no statement filters out events by their type, are far faster than conditions on the
type; ``key = a.key`` is twice as fast as a context for each key. Where the order of all events matters, they are one
stream, and nothing was faster than ``match_recognize``.

Esper's clock advances once per second of event time: per event it would cost as much as sending. So the conditions on
``ts`` make the bounds exact, and timers, up to a second late, only free memory and detect absences.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.workload import ABSENCE_MS, WINDOW_MS

TICK_MS = 1000
"""Event time between two advances of Esper's clock."""
_WINDOW_AND_TICK = f"{WINDOW_MS + TICK_MS} milliseconds"
_ABSENCE_AND_TICK = f"{ABSENCE_MS + TICK_MS} milliseconds"


@dataclass(frozen=True)
class Form:
    """A query in Esper's language; the statement named ``matches`` returns ``aid``."""

    epl: str
    by_type: bool
    """Events are streams A to J if true, otherwise one stream, Event."""


_RISING = f"""
  pattern [every a=A -> ((b=B(key=a.key, v>a.v) -> c=C(key=a.key)) where timer:within({_WINDOW_AND_TICK}))]
  where c.ts - a.ts < {WINDOW_MS}
"""

# match_recognize cannot express this: it emits a match as soon as it is complete, although an earlier A may have a
# longer match that excludes it. So the matches of every A are buffered, in the order of their A, until no match can
# precede them.
_Q1 = f"""
create table Ended(key Integer primary key, ts long);
insert into Rising select a.id as id, a.key as key, a.ts as first, c.ts as last from {_RISING};
insert rstream into Settled select rstream * from Rising#time_order(first, {_WINDOW_AND_TICK});
on Settled as s merge Ended as e where e.key = s.key
  when matched and e.ts < s.first then insert into Found select s.id as aid then update set ts = s.last
  when not matched then insert into Found select s.id as aid then insert select s.key as key, s.last as ts;
@name('matches') select aid from Found
"""

_Q1N = f"@name('matches') select a.id as aid from {_RISING}"

_Q2 = f"""
@name('matches') select aid from Event match_recognize (
  partition by key measures a.id as aid after match skip past last row pattern (a b c)
  define a as a.type = 'A', b as b.type = 'B' and b.v > a.v, c as c.type = 'C' and c.ts - a.ts < {WINDOW_MS})
"""

_Q3 = f"""
@name('matches') select aid from Event match_recognize (
  partition by key measures a.id as aid after match skip past last row pattern (a b+ c)
  define a as a.type = 'A', b as b.type = 'B',
    c as c.type = 'C' and c.ts - a.ts < {WINDOW_MS} and b.sumOf(one => one.v) > 100)
"""

_Q4 = f"""
@name('matches') select a.id as aid from pattern [
  every a=A -> (timer:interval({_ABSENCE_AND_TICK}) and not B(key=a.key, ts < a.ts + {ABSENCE_MS}))]
"""

FORMS: dict[str, Form] = {
    "Q1": Form(_Q1, by_type=True),
    "Q1n": Form(_Q1N, by_type=True),
    "Q2": Form(_Q2, by_type=False),
    "Q3": Form(_Q3, by_type=False),
    "Q4": Form(_Q4, by_type=True),
}
