"""Layout of the kernel's arrays: opcodes, slots of a frame, slots of a table row, counters.

Kernels work on numeric arrays only. The names below are compile-time constants, so that the source of a kernel reads
like the interpreter's.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from perseid.runtime.arrays import FloatArray, Int32Array, IntArray
from perseid.runtime.jit import typed

if TYPE_CHECKING:
    from numba.core.types import Type

Ints: TypeAlias = IntArray
"""A flat array of int64."""
Ints2: TypeAlias = IntArray
Doubles: TypeAlias = FloatArray
Doubles2: TypeAlias = FloatArray
Codes: TypeAlias = Int32Array
"""A flat array of int32."""

NONE = -(2**62)
"""No time or no limit: less than every valid time."""
FOREVER = 2**63 - 1

# instructions: one row of OP_WIDTH words each, the opcode first
OP_WIDTH = 16
(
    TAKE, HOP, SPLIT, JUMP, LOOP_ENTER, LOOP_TURN, LOOP_BACK, ALL_ENTER, ALL_TURN, ALL_BACK, WATCH, ZONE_ENTER,
    ZONE_LEAVE, ACCEPT,
) = range(14)  # fmt: skip

# how a step follows the event before it
FIRST, STRICT, SKIP, ANY = -1, 0, 1, 2

# slots of a frame: the state of one thread between two events
(
    PC, COUNT, LAST, CONTIGUITY, AFTER, WITHIN, TOGETHER, CLOCK, BARRIER, SPARE, WATCHES, ZONES, UNTILS, TOTALS,
    # the first own entry on the stack of taken events, and the frame of the enclosing thread, which took those below
    BEGUN, AROUND,
    # of a branch only: its step (-1: acceptance), the event found, the next position to scan, its bounds
    STEP, FOUND, SCAN_FROM, HIGH, CLOSING, BROKEN,
) = range(22)  # fmt: skip
HEAD = 22
WATCH_WIDTH = 6
W_PROGRAM, W_POSITION, W_SINCE, W_UNTIL, W_DEPTH, W_CONJUNCTION = range(6)
ZONE_WIDTH = 4
Z_MICROS, Z_COUNT, Z_HOLDS, Z_FIRST = range(4)

# header of the tables: frame layout, properties of the whole pattern, and offsets of the other parts; lists, formulas
# and instructions are addressed by their offset in the tables
(
    S_FRAME, S_REGISTERS, S_ZONES, S_UNTILS, S_WATCHES, S_CURRENT, S_UNIFIED, S_STEPS, S_UNIFIED_COUNT,
    S_TOTALS, S_WITHIN, S_WITHIN_COUNT, S_HOLDS, S_GUARDS, S_GUARDS_COUNT, S_LEADS, S_LEADS_COUNT, S_SKIP, S_SKIP_STEP,
    S_ONE, S_TIMEOUTS, S_STRICTLY, S_CONTEXT, S_COMBINES, S_MEMO, S_PLAIN, S_REGISTER_COUNT, S_MATCH_CAP,
    S_STRAIGHT, S_STEP_TABLE, S_TOTAL_TABLE, S_PROGRAMS, S_FAMILIES, S_CODE, S_BOUND, S_MERGES,
) = range(36)  # fmt: skip
SHAPE = 36
SKIP_NONE, SKIP_TO_NEXT, SKIP_PAST_LAST, SKIP_TO_FIRST, SKIP_TO_LAST = range(5)
(CHRONICLE, IMMEDIATE, STRICT_IMMEDIATE, CONTINUOUS, RECENT, CUMULATIVE) = range(6)

# a step: its bit in the event mask, its bit in the ``must`` mask (-1: none), its conditions on earlier events, its
# unified columns, the totals it updates; the posting that finds its events by values (-1: none), the step (below zero:
# the unified name) that has those values, and 1 if that step is found by the same values
STEP_WIDTH = 15
(
    ST_BIT, ST_MUST_BIT, ST_SIMPLE, ST_BINDS, ST_CHOOSE, ST_CHOOSE_COUNT, ST_MUST, ST_MUST_COUNT, ST_UNIFY, ST_UNIFY_COUNT,
    ST_TOTALS, ST_TOTALS_COUNT, ST_POSTING, ST_HOLDER, ST_SAME_VALUES,
) = range(15)  # fmt: skip
# offsets of the parts of a posting: the group of the values that every event has as an earlier event (-1: none), the
# start of each group, and the events of all groups; the first word of the postings is their number
POSTING_WIDTH = 3
P_GROUP_OF, P_GROUPS, P_EVENTS = range(3)

# a running total over a repeated step
TOTAL_WIDTH = 3
T_FUNCTION, T_COLUMN, T_FAMILY = range(3)
(
    TOTAL_EVENTS, TOTAL_COUNT, TOTAL_SUM, TOTAL_SUM_DOUBLE, TOTAL_AVERAGE, TOTAL_MIN, TOTAL_MAX, TOTAL_FIRST, TOTAL_LAST,
    TOTAL_STDDEV, TOTAL_ANY, TOTAL_EVERY,
) = range(12)  # fmt: skip
TOTAL_INTS, TOTAL_DOUBLES = 3, 2

# families of values: the interpretation of an int64
INTEGER, DOUBLE, STRING, BOOLEAN, TIMESTAMP, DATE, DURATION, OPAQUE = range(8)
"""OPAQUE: a code for each distinct value of any type, for unified values of mixed or other types."""

# words of a formula: an opcode and two operands; opcodes that push a value, then those that map the top of the stack
# unless it is null, then all others
FORMULA_WIDTH = 3
(
    F_END, F_INT, F_DOUBLE, F_NULL, F_OWN, F_CURRENT, F_UNIFIED, F_OWN_TIME, F_TIME, F_TOTAL, F_PERCENTILE,
    F_PREV,
    F_NOT, F_NEG, F_NEG_D, F_TO_DOUBLE, F_TO_TIMESTAMP, F_ABS, F_ABS_D,
    F_ADD, F_SUB, F_MUL, F_DIV, F_MOD, F_ADD_D, F_SUB_D, F_MUL_D, F_DIV_D, F_MOD_D, F_EQ, F_LT, F_LE, F_EQ_D, F_LT_D,
    F_LE_D, F_AND, F_OR, F_IS_NULL, F_IS_TRUE, F_IS_FALSE, F_IF, F_SAME, F_SAME_D, F_PYTHON,
) = range(44)  # fmt: skip

# rows of the event array; the columns that conditions load follow
E_TIME, E_MASK, E_MUST, E_NULLS = range(4)
E_COLUMNS = 4

# nodes of the search: one for each event on the current path
NODE_WIDTH = 7
N_FIRST, N_COUNT, N_AT, N_COMMITTED, N_TOTALS, N_POINT, N_OUTCOME = range(7)
# outcomes of a search point: no path is accepted, a path is open before any is accepted, a path is accepted first
POINT_DEAD, POINT_OPEN, POINT_ACCEPTED = range(3)

# header of the arena: counters, then the offsets of its areas; frames and nodes are addressed by their offset
(
    C_TOP, C_NODES, C_TOTALS, C_OUT, C_OPEN, C_FOUND, C_EARLIEST_OPEN, C_TIMEOUT, C_KEYS, C_EPOCH, C_PARTITION, C_START,
    C_RESUME, C_MATCHES, C_CAPPED, C_STARTED, C_NEXT_TIMER,
    # the budget: steps so far, the step limit of the current start, steps before this key, the step limit of the key,
    # matches of the key and their limit
    C_STEPS, C_STEPS_END, C_KEY_STEPS, C_KEY_END, C_KEY_MATCHES, C_MATCHES_END,
    # set by Python: steps of a key, more for each of its events, matches of a key, more for each of its events, steps
    # of a start for each event, and the number of steps at which a call pauses; then the area that was too small
    C_MAX_STEPS, C_EVENT_STEPS, C_MAX_MATCHES, C_EVENT_MATCHES, C_START_STEPS, C_PAUSE, C_FULL_AREA,
    # points reached by earlier starts: 1 if they are stored, for which horizon, after how many steps of a start without
    # a match; and the offset of the outcome of the point that was looked up last
    C_MERGING, C_MERGE_HORIZON, C_MERGE_AFTER, C_OUTCOME,
) = range(34)  # fmt: skip
(
    A_STACK, A_NULLS, A_BIND, A_WORK, A_WORK_END, A_TAKEN, A_TAKEN_END, A_TOTALS, A_TOTALS_END, A_NODES, A_NODES_END,
    A_FRAMES, A_FRAMES_END, A_TABLE, A_TABLE_SIZE, A_KEYS, A_KEYS_END, A_OUT, A_OUT_END,
) = range(34, 53)  # fmt: skip
SPACE_HEAD = 53
CHEAP_SHIFT = 3
"""Eight events that are compared and not taken count as one step, as do eight events of an output match."""
MERGED_POINTS = 1 << 20
"""Size of the memo table, in entries, at which it stops growing for the points of earlier starts."""
STACK = 64
"""Capacity of the evaluation stack; in the arena's doubles it comes first, totals after it."""
# K_SORTED is scratch: the k-th entry has the position of the k-th event that a percentile is sorting
TAKEN_WIDTH = 4
K_STEP, K_POSITION, K_ANY, K_SORTED = range(4)

# the result of a search
CONTINUE, DECIDED = 0, 1
FULL = -1
"""An area of the arena was too small: the driver enlarges it and calls again."""
ANY_AREA, OUTPUT_AREA, TAKEN_AREA = range(3)
"""The area that was too small: the output, the stack of taken events, or one of the others."""
SPENT = -2
"""The budget of the key is exhausted."""
PAUSED = -3
"""The call reached its step limit; the driver calls again, and the start is searched again."""

MATCH_HEAD = 4
"""Header of a match: partition, kind, end, number of events. (position, column) and (step, position) pairs follow."""
CARRIED_HEAD = 2
"""Header of a restored partial match: 1 if extended, number of events. (step, branch, position) of each follow."""
STILL_OPEN = -2
"""In place of a match's kind: a partial match to carry over. Negative, like voided matches, so it is not emitted."""


class Arrays(NamedTuple):
    """The arguments of a kernel. Few arrays with many parts each: Numba passes every array as seven arguments."""

    tables: Ints
    """The bytecode of a pattern."""
    constants: Doubles
    events: Ints2
    """Events in order: times, masks, and the columns that conditions load."""
    doubles: Doubles2
    blocks: Ints
    """Union of the masks of each 64 events and, from the offset in the first word on, of each 64 such blocks."""
    postings: Ints
    """Indexes of events by column values, for steps that must equal an earlier event in these columns."""
    space: Ints
    """The arena: working memory, enlarged when a call returns FULL."""
    reals: Doubles


@cache
def _types() -> tuple[dict[str, Type], dict[str, Type]]:
    """Numba types by the names in a kernel's annotations: for functions that Python calls, and for the others."""
    import numba

    from perseid.runtime.pointers import memory_of

    known: dict[str, Type] = {
        "int": numba.int64,
        "bool": numba.boolean,
        "float": numba.float64,
        "None": numba.void,
        "Ints": numba.int64[::1],
        "Ints2": numba.int64[:, ::1],
        "Doubles": numba.float64[::1],
        "Doubles2": numba.float64[:, ::1],
        "Codes": numba.int32[::1],
    }
    fields = [known[word.__forward_arg__] for word in Arrays.__annotations__.values()]
    arrays = numba.types.NamedTuple(fields, Arrays)  # type: ignore[no-untyped-call]
    return {**known, "Arrays": arrays}, {**known, "Arrays": memory_of(arrays)}


compiled = typed(lambda: _types()[1], entry=False)
"""Marks a function of the kernel: compiled for the one signature its annotations spell."""
entry = typed(lambda: _types()[0], entry=True)
"""The same for functions that Python calls."""
