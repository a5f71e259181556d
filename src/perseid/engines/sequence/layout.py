"""Where everything lies in the kernel's arrays: opcodes, words of a frame, words of a table row, counters.

Kernels see nothing but arrays of numbers. The names below are compile-time constants, so that the source of a kernel
reads like the interpreter's.
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
"""No time, no limit: lies before every time there is."""
FOREVER = 2**63 - 1

# instructions: one row of OP_WIDTH words each, the opcode first
OP_WIDTH = 16
(
    TAKE, HOP, SPLIT, JUMP, LOOP_ENTER, LOOP_TURN, LOOP_BACK, ALL_ENTER, ALL_TURN, ALL_BACK, WATCH, ZONE_ENTER,
    ZONE_LEAVE, ACCEPT,
) = range(14)  # fmt: skip

# how a step follows the event before it
FIRST, STRICT, SKIP, ANY = -1, 0, 1, 2

# words of a frame: one thread through the pattern, at a point between two events
(
    PC, COUNT, LAST, CONTIGUITY, AFTER, WITHIN, TOGETHER, CLOCK, BARRIER, SPARE, WATCHES, ZONES, UNTILS, TOTALS,
    # where on the stack of taken events its own begin, and the thread around it, which took those before
    BEGUN, AROUND,
    # of a branch only: its step (-1: acceptance), the event it found, where its scan goes on, its bounds
    STEP, FOUND, SCAN_FROM, HIGH, CLOSING, BROKEN,
) = range(22)  # fmt: skip
HEAD = 22
WATCH_WIDTH = 6
W_PROGRAM, W_POSITION, W_SINCE, W_UNTIL, W_DEPTH, W_CONJUNCTION = range(6)
ZONE_WIDTH = 4
Z_MICROS, Z_COUNT, Z_HOLDS, Z_FIRST = range(4)

# the head of the tables: how a pattern's frames are laid out, what holds for the pattern as a whole, and where in the
# tables the rest lies; lists, formulas and instructions are named by their place in the tables
(
    S_FRAME, S_REGISTERS, S_ZONES, S_UNTILS, S_WATCHES, S_CURRENT, S_UNIFIED, S_STEPS, S_UNIFIED_COUNT,
    S_TOTALS, S_WITHIN, S_WITHIN_COUNT, S_HOLDS, S_GUARDS, S_GUARDS_COUNT, S_LEADS, S_LEADS_COUNT, S_SKIP, S_SKIP_STEP,
    S_ONE, S_TIMEOUTS, S_STRICTLY, S_CONTEXT, S_COMBINES, S_MEMO, S_PLAIN, S_REGISTER_COUNT, S_MATCH_CAP,
    S_STRAIGHT, S_STEP_TABLE, S_TOTAL_TABLE, S_PROGRAMS, S_FAMILIES, S_CODE, S_BOUND, S_MERGES,
) = range(36)  # fmt: skip
SHAPE = 36
SKIP_NONE, SKIP_TO_NEXT, SKIP_PAST_LAST, SKIP_TO_FIRST, SKIP_TO_LAST = range(5)
(CHRONICLE, IMMEDIATE, STRICT_IMMEDIATE, CONTINUOUS, RECENT, CUMULATIVE) = range(6)

# a step: its bit in the events' mask, the bit of what must hold of its event alone (-1: nothing), its conditions on
# earlier events, what it unifies, which totals it adds to; the posting that finds its events by values (-1: none), the
# step (below zero: the unified name) that has those values, and whether that step is found by the same values itself
STEP_WIDTH = 15
(
    ST_BIT, ST_MUST_BIT, ST_SIMPLE, ST_BINDS, ST_CHOOSE, ST_CHOOSE_COUNT, ST_MUST, ST_MUST_COUNT, ST_UNIFY, ST_UNIFY_COUNT,
    ST_TOTALS, ST_TOTALS_COUNT, ST_POSTING, ST_HOLDER, ST_ALIKE,
) = range(15)  # fmt: skip
# where the parts of a posting begin: the group of every event that may have the values, where each group begins, and the
# events of all groups; the postings' first word says how many there are
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

# families of values: what an int64 stands for
INTEGER, DOUBLE, STRING, BOOLEAN, TIMESTAMP, DATE, DURATION, OPAQUE = range(8)
"""OPAQUE: a number for each distinct value of any kind, for unified values that are nothing else."""

# words of a formula: an opcode and two operands; first what puts a value on the stack, then what changes the one on
# top, then what joins some
FORMULA_WIDTH = 3
(
    F_END, F_INT, F_DOUBLE, F_NULL, F_OWN, F_CURRENT, F_UNIFIED, F_OWN_TIME, F_TIME, F_TOTAL, F_PREV,
    F_NOT, F_NEG, F_NEG_D, F_TO_DOUBLE, F_TO_TIMESTAMP, F_ABS, F_ABS_D,
    F_ADD, F_SUB, F_MUL, F_DIV, F_MOD, F_ADD_D, F_SUB_D, F_MUL_D, F_DIV_D, F_MOD_D, F_EQ, F_LT, F_LE, F_EQ_D, F_LT_D,
    F_LE_D, F_AND, F_OR, F_IS_NULL, F_IS_TRUE, F_IS_FALSE, F_IF, F_SAME, F_SAME_D, F_PYTHON,
) = range(43)  # fmt: skip

# rows of the events: columns that conditions ask for come after these
E_TIME, E_MASK, E_MUST, E_NULLS = range(4)
E_COLUMNS = 4

# nodes of the search: one for each event taken on the way to where it stands
NODE_WIDTH = 7
N_FIRST, N_COUNT, N_AT, N_COMMITTED, N_TOTALS, N_POINT, N_OUTCOME = range(7)
# how the paths that go on from a point end: none arrives, one waits before any arrives, one arrives first
DEAD, WAITS, ARRIVES = range(3)

# the head of the space: counters, then where its parts lie; frames and nodes are named by their place
(
    C_TOP, C_NODES, C_TOTALS, C_OUT, C_OPEN, C_FOUND, C_HELD, C_STUCK, C_KEYS, C_EPOCH, C_PARTITION, C_START, C_RESUME,
    C_MATCHES, C_CAPPED, C_STARTED, C_WAKE,
    # the budget: steps so far, the number at which an attempt stops, steps before this key, the number at which the key
    # stops, matches of this key and how many it may have
    C_STEPS, C_STEPS_END, C_KEY_STEPS, C_KEY_END, C_KEY_MATCHES, C_MATCHES_END,
    # what Python sets: steps and matches of a key, how many more for each of its events, steps of an attempt for each
    # event, and the number of steps at which a call pauses; then which area was too small
    C_MAX_STEPS, C_EVENT_STEPS, C_MAX_MATCHES, C_EVENT_MATCHES, C_ATTEMPT_STEPS, C_PAUSE, C_FULL_AREA,
    # points that earlier starts reached: 1 if they are kept, for which horizon, after how many steps of a start without
    # a match they are; and the outcome of the point that was looked up last
    C_MERGING, C_MERGE_HORIZON, C_MERGE_AFTER, C_OUTCOME,
) = range(34)  # fmt: skip
(
    A_STACK, A_NULLS, A_BIND, A_WORK, A_WORK_END, A_TAKEN, A_TAKEN_END, A_TOTALS, A_TOTALS_END, A_NODES, A_NODES_END,
    A_FRAMES, A_FRAMES_END, A_TABLE, A_TABLE_SIZE, A_KEYS, A_KEYS_END, A_OUT, A_OUT_END,
) = range(34, 53)  # fmt: skip
SPACE_HEAD = 53
CHEAP_SHIFT = 3
"""Eight events that are compared and not taken count as one step, and so do eight events of a match that is written."""
MERGED_POINTS = 1 << 20
"""Places of the table of points at which it stops growing for the points of earlier starts."""
STACK = 64
"""Places of the stack; in the space's doubles it comes first, totals after it."""
TAKEN_WIDTH = 3
K_STEP, K_POSITION, K_ANY = range(3)

# the result of a search
GOES_ON, DECIDED = 0, 1
FULL = -1
"""Some array was too small: the driver makes them larger and asks again."""
ANY_AREA, OUTPUT_AREA, TAKEN_AREA = range(3)
"""Which array was too small: the output, the stack of taken events, or one of the others."""
SPENT = -2
"""The budget of the key is used up."""
PAUSED = -3
"""The call did as many steps as it may do at once; the driver calls again, and the start is searched again."""

MATCH_HEAD = 4
"""Partition, kind, end, number of events; then unified (position, column) pairs; then (step, position) pairs."""
CARRIED_HEAD = 2
"""Of a partial match from an earlier call: whether it went on, how many events; then (step, way, position) of each."""
STILL_OPEN = -2
"""In place of a match's kind, below zero as of those struck out: it is a partial match that is carried on."""


class Arrays(NamedTuple):
    """Everything the kernel sees. Few arrays with many parts each: Numba passes every array as seven arguments."""

    tables: Ints
    """The bytecode of a pattern."""
    constants: Doubles
    events: Ints2
    """Events in order: times, masks, and the columns that conditions ask for."""
    doubles: Doubles2
    blocks: Ints
    """Which steps occur in each 64 events, and from the place named first on in each 64 such blocks."""
    postings: Ints
    """For steps that equal an earlier event in some columns: the events they may fit, by those columns' values."""
    space: Ints
    """Room to work in; made larger when an answer is FULL."""
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
