"""Layout of the matcher's arrays: steps of the plan, candidates, cells of results, output rows.

A *candidate* is an element that passed a step's test and has unmet requirements, or has not ended yet. Candidates form
a stack with those of the innermost element on top. Their results so far are in *cells*: results, and ropes that
concatenate two cells without copying. ``kernel`` processes them.
"""

from __future__ import annotations

from typing import NamedTuple

from perseid.engines.trees.layout import DONE, DOUBT, Bytes, Ints, WritableBytes, kinds
from perseid.engines.trees.limits import DEEPEST
from perseid.runtime.jit import typed, words

# head of the plan, then offsets of its parts
P_STEPS, P_STEP_COUNT, P_PATTERNS, P_PATTERN_COUNT, P_PUSHED, P_LASTS, P_RUN_CELLS, P_CHILD_CELLS, P_LEAVES = range(9)
PLAN_HEAD = 9
"""Steps and their number; flags of each pattern (GIVES, HOLDS_ALWAYS) and their number; words for all candidates of one
element; number of steps with ``[last()]``; cells that runs may need in one call, and more per buffered child; and the
step that represents all leaves."""
RETURNS_NODES, HOLDS_ALWAYS = 1, 2
"""The pattern returns nodes; the pattern matches every document."""

# a step; step 0 is the document
(
    SP_PARENT, SP_AXIS, SP_KIND, SP_BIT, SP_ALL, SP_RETURN, SP_TEXT, SP_TESTS, SP_TEST_COUNT, SP_PLACE, SP_COUNTER, SP_LAST,
    SP_LAST_BIT, SP_RETURNS_BELOW, SP_FREE, SP_PATTERN, SP_MACHINES, SP_MACHINE_COUNT, SP_FA, SP_SIZE, SP_ROPE, SP_ROPES, SP_WILDS,
) = range(23)  # fmt: skip
STEP_WIDTH = 23
"""Step above, axis, kind; its bit in the marks of the candidate above, and the mask of its own requirements; whether it
is returned, whether its text is needed, its comparisons; its required position (0: any) and the counter for it, the
slot of ``[last()]`` (-1: none) and its bit; whether it or a step below is returned; whether neither it nor a step above
collects results, so that they pass through at once; its pattern; sibling expressions over its children; of a sibling
expression the automaton; words of a candidate; the rope of its results in an expression above (-1: none); of an
expression, the number of such ropes; and the list of steps below that any child passes (0: none)."""
CHILD, DESCENDANT, SELF = range(3)
ELEMENT_STEP, ATTRIBUTE_STEP, RUN_STEP, DOCUMENT_STEP, LEAF_STEP = range(5)
"""A leaf is a step that requires nothing but comparisons of its text: all leaves of an element share one candidate,
with the offset of their list in C_OWN."""

# a comparison: its bit; with a text, the bytes; with a number, the least and the greatest that equal it, and whether
# these two equal it themselves
TE_BIT, TE_OP, TE_NUMERIC, TE_FROM, TE_TO, TE_CLOSED, TE_LOW = range(7)
TE_HIGH = 10
TEST_WIDTH = 14
B_SIGN, B_POINT, B_FROM, B_TO = range(4)
"""A bound: its sign (2 and -2: beyond all numbers), the position of its point from the first digit, and its digits."""
EQUAL, UNEQUAL, LESS_THAN, AT_MOST, MORE_THAN, AT_LEAST = range(6)
NOT_A_NUMBER = 9

# a sibling automaton
F_STATES, F_FIRST, F_OFFSETS, F_EDGES, F_MAX_MORE, F_ACCEPTS = range(6)
FA_HEAD = 6
"""Number of states; mask of the items that can begin a run; offsets of each state's edges, (item, state) pairs; by
state, how many more members a run may take, and whether a run may end there."""
END_OF_RUN, PASS = -1, -2

PATIENCE, GRACE = 4, 64
"""Limit of child reads in one call: PATIENCE per buffered child, plus GRACE."""

# head of the matcher's space
(
    X_AT, X_DEPTH, X_ORDINAL, X_TOP, X_LAST, X_CELLS, X_TEXT, X_VALUES, X_TEXTERS, X_HOLDERS, X_WORK, X_QUEUE, X_QUEUE_DONE,
    X_OWNER, X_WILD, X_PARKED, X_BUFFERED, X_RETURN, X_UNKNOWN,
    X_ROWS, X_OUT_BYTES, X_STAMP, X_ORDINALS, X_COUNTS, X_COUNTED, X_PARKS, X_TOPS, X_DECIDED, X_ELEMENTS, X_ATTRIBUTES, X_THREADS, X_EDGES, X_STATES,
    X_QUEUED, X_GATHERED, X_STACK_END, X_CELLS_END, X_TEXT_END, X_VALUES_END, X_ROWS_END, X_OUT_END, X_SCRATCH_END,
    X_DOCUMENT, X_DOCUMENTS, X_FULL_ROWS, X_FULL_BYTES,
) = range(46)  # fmt: skip
MATCH_HEAD = 46
X_BEGUN = X_ROWS
"""Next token; its depth; number of the last element or attribute; end of the stack and its last candidate; ends of
cells, text and values; counts of candidates that need text, and that refer to cells or text; length of the work list of
candidates with newly met requirements; length of the output queue and how much of it is written; innermost candidate of
a sibling expression, and innermost with steps that any child passes; count of candidates that wait for ``[last()]``;
count of buffered children; whether a piece of CDATA ended in a carriage return; the unresolved name. All these, up to
X_BEGUN, are reset for each document, except that ordinals continue. Then output rows and bytes, and the stamp of the
last traversal of cells. Then offsets: ordinals of the open elements by depth, position counters and the parents that
they count for, candidates that wait for ``[last()]``, innermost candidate by step, decided patterns, lists of steps by
element and attribute name, buffer for threads, and its sizes; in the scratch, the queue and gathered results; ends of
all arrays. Last, the current document and the number of documents, and the rows and bytes that were written when the
output arrays were last full."""

ELEMENT_BITS = 14
"""A position in a document: the number of an element, shifted by these bits, plus that of one of its attributes."""
DEPTHS = DEEPEST + 2
"""Length of arrays by depth: elements, the document above them, and one level below the deepest."""

# a candidate
C_STEP, C_DEPTH, C_MARKS, C_OWN, C_INHERITED, C_TEXT, C_ORDINAL, C_PREVIOUS, C_BELOW, C_FLAGS, C_NAME, C_WILD = range(
    12
)
CANDIDATE_WIDTH = 12
"""Its step and depth, requirements met, ropes of results (its own, and those shared with enclosing candidates of its
step), offset of its text, its position in the document, the enclosing candidate of its step, the candidate below it on
the stack, its flags, the name of its element, and the next outer candidate with steps below that any child passes."""
HOLDS_REFERENCES, DELIVERED = 1, 2
# a candidate of a sibling expression has also: the next such candidate outside, buffered children when work began to be
# counted, work done, and the state of runs
(
    M_OWNER, M_BUDGET, M_SPENT, M_DEFERRED, M_FIRST, M_LAST, M_LENGTH, M_THREADS, M_BEST, M_BEST_LENGTH, M_BEST_ROPE, M_DONE,
    M_BUFFERED,
) = range(12, 25)  # fmt: skip
RUN_CANDIDATE_WIDTH = 25
"""Then ropes of the current child by item, ropes shared with enclosing candidates, and threads of the automaton."""

# cells: kind, and stamp of the last traversal that visited it
CELL_KIND, CELL_STAMP = range(2)
ROPE_CELL, RESULT_CELL, CHILD_CELL = range(3)
L_LEFT, L_RIGHT = 2, 3
ROPE_WIDTH = 4
V_ORDINAL, V_STEP, V_NAME, V_FROM, V_TO, V_INNER, V_EMITTED = range(2, 9)
RESULT_WIDTH = 9
K_NEXT, K_BITS, K_ORDINAL, K_COUNT, K_ROPES = range(2, 7)
CHILD_WIDTH = 6

# output: one row for each node, and for each run, of a result, followed by those inside it
O_PATTERN, O_LEVEL, O_STEP, O_NAME, O_FROM, O_TO, O_ORDINAL = range(7)
ROW_WIDTH = 7

# status of the matcher
READ = DONE
NO_CAPACITY, NAMES, ROWS, ENTITY, ODD = range(DOUBT + 1, DOUBT + 6)
"""Additional to the scan status: all tokens are read; an array is too small; a name is new; output rows have to be
taken; an entity is unknown; a document is not simple enough for the batch path."""


class Space(NamedTuple):
    """All arrays of the matcher."""

    plan: Ints
    constants: Bytes
    head: Ints
    stack: Ints
    cells: Ints
    scratch: Ints
    text: WritableBytes
    values: WritableBytes
    rows: Ints
    text_out: WritableBytes


_ENTRY_TYPES, _TYPES = words(kinds, Space=Space)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)
