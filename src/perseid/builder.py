"""Build patterns in Python instead of text, and pass them to :func:`perseid.pattern`.

>>> import perseid as ps
>>> from perseid.builder import absent, build, step
>>> unpaid = ps.pattern(
...     build("unpaid").match(step("Order", "o") >> absent(step("Payment"), for_="1 hour")).partition_by("customer")
... )
>>> print(unpaid)
pattern unpaid
match Order o -> not Payment for 1 hour
partition by customer
<BLANKLINE>
"""

from perseid.lang.builder import (
    Part,
    PatternBuilder,
    absent,
    all_of,
    any_event,
    any_of,
    build,
    change,
    found,
    group,
    lost,
    seq,
    step,
    tree,
    updated,
)

__all__ = [
    "Part",
    "PatternBuilder",
    "absent",
    "all_of",
    "any_event",
    "any_of",
    "build",
    "change",
    "found",
    "group",
    "lost",
    "seq",
    "step",
    "tree",
    "updated",
]
