"""Where everything lies in the arrays of the matcher: steps of the plan, candidates, cells of results, what is told.

A *candidate* is an element that passed a step's test and whose demands are not all met yet, or that waits for its end.
Candidates lie on a stack, those of the innermost element on top. What they have found so far lies in *cells*: results,
and ropes that join two of them without copying. See ``kernel`` for what happens to them.
"""

from __future__ import annotations

from typing import NamedTuple

from perseid.engines.trees.layout import DONE, DOUBT, Bytes, Ints, Room, kinds
from perseid.engines.trees.limits import DEEPEST
from perseid.runtime.jit import typed, words

# the head of the plan, then where its parts lie
P_STEPS, P_STEP_COUNT, P_PATTERNS, P_PATTERN_COUNT, P_PUSHED, P_LASTS, P_RUN_ROOM, P_CHILD_ROOM, P_LEAVES = range(9)
PLAN_HEAD = 9
"""Steps, and how many; what is known of each pattern (GIVES, HOLDS_ALWAYS), and how many; words that candidates of one element may
need; how many steps ask for the last one; cells that runs may need in one call, and more for each child that is kept; and the
step that stands for all leaves."""
GIVES, HOLDS_ALWAYS = 1, 2
"""A pattern returns nodes; it holds of every document."""

# a step; step 0 is the document
(
    SP_PARENT, SP_AXIS, SP_KIND, SP_BIT, SP_ALL, SP_RETURN, SP_TEXT, SP_TESTS, SP_TEST_COUNT, SP_PLACE, SP_COUNTER, SP_LAST,
    SP_LAST_BIT, SP_GIVES, SP_FREE, SP_PATTERN, SP_MACHINES, SP_MACHINE_COUNT, SP_FA, SP_SIZE, SP_ROPE, SP_ROPES, SP_WILDS,
) = range(23)  # fmt: skip
STEP_WIDTH = 23
"""The step above, how it is reached, what it is; its bit in the marks of the candidate above and the bits it needs itself;
whether it is returned, whether its text is needed, comparisons with it; the position it must have (0: any) and where it is
counted, where it waits to be the last (-1: need not) and the bit of that; whether it or anything below it is returned;
whether nothing above it, nor itself, gathers results, so that they pass at once; its pattern; expressions over its
children; of such an expression its automaton; words of a candidate; the rope of its results in an expression above (-1:
none); of an expression, how many such ropes; and steps below it that any child passes (0: none)."""
CHILD, DESCENDANT, SELF = range(3)
ELEMENT_STEP, ATTRIBUTE_STEP, RUN_STEP, DOCUMENT_STEP, LEAF_STEP = range(5)
"""A leaf is a step of which nothing is asked but what its text is: all leaves of an element are one candidate, whose C_OWN says
where they are listed."""

# a comparison: the bit it sets; with a text: its bytes; with a number: the least and the greatest that equal it, and
# whether they do so themselves
TE_BIT, TE_OP, TE_NUMERIC, TE_FROM, TE_TO, TE_CLOSED, TE_LOW = range(7)
TE_HIGH = 10
TEST_WIDTH = 14
B_SIGN, B_POINT, B_FROM, B_TO = range(4)
"""Of a bound: its sign (2 and -2: beyond all numbers), where its point is counted from the first digit, and its digits."""
EQUAL, UNEQUAL, LESS_THAN, AT_MOST, MORE_THAN, AT_LEAST = range(6)
NOT_A_NUMBER = 9

# an automaton over siblings
F_STATES, F_FIRST, F_OFFSETS, F_EDGES, F_MOST, F_OVER = range(6)
FA_HEAD = 6
"""How many states; the bits that a first member can have; where the edges of each state begin, (item, state) pairs; how many
members each may still take; whether a run may be over in it."""
OVER, PASS = -1, -2

PATIENCE, GRACE = 4, 64
"""How often each child that is kept, and how many children in all, may be read again in one call."""

# the head of the matcher's space
(
    X_AT, X_DEPTH, X_ORDINAL, X_TOP, X_LAST, X_CELLS, X_TEXT, X_VALUES, X_TEXTERS, X_HOLDERS, X_WORK, X_QUEUE, X_QUEUE_DONE,
    X_OWNER, X_WILD, X_PARKED, X_BUFFERED, X_RETURN, X_UNKNOWN,
    X_ROWS, X_TOLD, X_STAMP, X_ORDINALS, X_COUNTS, X_COUNTED, X_PARKS, X_TOPS, X_DECIDED, X_ELEMENTS, X_ATTRIBUTES, X_THREADS, X_EDGES, X_STATES,
    X_QUEUED, X_GATHERED, X_STACK_END, X_CELLS_END, X_TEXT_END, X_VALUES_END, X_ROWS_END, X_TOLD_END, X_SCRATCH_END,
    X_DOCUMENT, X_DOCUMENTS, X_FULL_ROWS, X_FULL_TOLD,
) = range(46)  # fmt: skip
MATCH_HEAD = 46
X_BEGUN = X_ROWS
"""The next token; how deep it is; elements and attributes so far; the end of the stack and its last candidate; the ends of
cells, text and values; candidates that need text, and that hold cells or text; candidates whose demands are newly met, and
results to tell; the innermost candidate for runs, and with steps that any child passes; candidates that wait to be the last; children that are kept; whether a piece
of CDATA ended in a carriage return; the name that is new: all these begin anew with a document, as far as X_BEGUN. Then rows
and bytes told, and a number for each look at cells. Then where parts lie: places of the open elements by depth, counts of positions and whose, what waits to be the last, the innermost
candidate of each step, whether a pattern is decided, lists of steps by name, room for threads and how much; in the scratch
the queue and what is gathered; where everything ends; which
of how many documents is read; and the rows and bytes that were written when the output arrays were last full."""

ELEMENT_BITS = 14
"""A place in a document is the number of an element and, in so many bits below it, that of one of its attributes."""
DEPTHS = DEEPEST + 2
"""Depths that something is kept for: of elements, of the document above them, and of what would be below the deepest."""

# a candidate
C_STEP, C_DEPTH, C_MARKS, C_OWN, C_INHERITED, C_TEXT, C_ORDINAL, C_PREVIOUS, C_BELOW, C_FLAGS, C_NAME, C_WILD = range(
    12
)
CANDIDATE_WIDTH = 12
"""Its step and depth, demands met, what it found (its own, and what candidates of its step around it find as well), where its
text begins, its place in the document, the candidate of the same step around it, the one below it on the stack, its flags, the
name of its element, and the next candidate outside that has steps below it which any child passes."""
HOLDS, DELIVERED = 1, 2
# a candidate for runs: also the next such candidate outside, children kept when
# work began to be counted, work done, and what is known of runs
(
    M_OWNER, M_LOT, M_SPENT, M_WAITS, M_FIRST, M_LAST, M_LENGTH, M_THREADS, M_BEST, M_BEST_LENGTH, M_BEST_ROPE, M_DONE,
    M_BUFFERED,
) = range(12, 25)  # fmt: skip
RUN_CANDIDATE_WIDTH = 25
"""Then the ropes of the current child by item, those that candidates around it share, and threads of the automaton."""

# cells: what each is, and a stamp of who saw it last
CELL_KIND, CELL_STAMP = range(2)
ROPE_CELL, RESULT_CELL, CHILD_CELL = range(3)
L_LEFT, L_RIGHT = 2, 3
ROPE_WIDTH = 4
V_ORDINAL, V_STEP, V_NAME, V_FROM, V_TO, V_INNER, V_TOLD = range(2, 9)
RESULT_WIDTH = 9
K_NEXT, K_BITS, K_ORDINAL, K_COUNT, K_ROPES = range(2, 7)
CHILD_WIDTH = 6

# what is told: one row for each node, and for each run, of a result, those inside it after it
O_PATTERN, O_LEVEL, O_STEP, O_NAME, O_FROM, O_TO, O_ORDINAL = range(7)
ROW_WIDTH = 7

# what the matcher answers
READ = DONE
ROOM, NAMES, ROWS, ENTITY, ODD = range(DOUBT + 1, DOUBT + 6)
"""Beside what the scanner answers: all tokens were read; some array is too small; a name is new; rows have to be taken; an entity nobody knows; a document is
not so simple that it can be read with others."""


class Space(NamedTuple):
    """Everything the matcher sees."""

    plan: Ints
    constants: Bytes
    head: Ints
    stack: Ints
    cells: Ints
    scratch: Ints
    text: Room
    values: Room
    rows: Ints
    told: Room


_ENTRY_TYPES, _TYPES = words(kinds, Space=Space)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)
