"""Tree pattern matching over tokens, in one pass: elements become candidates of steps, and candidates become results.

At a start tag an element becomes a candidate of every step with its name, if the step above has a candidate in the
right place. A candidate with all requirements met marks those above it (``delivery``); when its element ends, its
results go up, and the children of an element drive the sibling automata (``runs``). Results that no step above
collects are emitted as soon as they are decided.
"""

from __future__ import annotations

from perseid.engines.trees.cells import emit_queued, queue_output, result, rope
from perseid.engines.trees.delivery import mark, nearest, propagate, release_references, retain, settle
from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Tokens
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled, entry
from perseid.engines.trees.runs import begin_run, end_runs, feed
from perseid.engines.trees.signs import CARRIAGE_RETURN
from perseid.engines.trees.strings import read_cdata, read_escaped, tested

SPARE_CELLS = 6
"""Upper bound of the words of cells that each word of a candidate needs when its element ends."""


@compiled
def next_element(ordinal: int) -> int:
    """Return the position of the element after a position."""
    return ((ordinal >> ELEMENT_BITS) + 1) << ELEMENT_BITS


@compiled
def push_candidate(M: Space, number: int, depth: int, ordinal: int, name: int) -> int:
    """Push a new candidate on the stack."""
    S, P, A = M.stack, M.plan, M.head
    step = P[P_STEPS] + number * STEP_WIDTH
    at = A[X_TOP]
    S[at + C_STEP] = number
    S[at + C_DEPTH] = depth
    S[at + C_MARKS] = 0
    S[at + C_OWN] = 0
    S[at + C_INHERITED] = 0
    S[at + C_TEXT] = A[X_TEXT]
    S[at + C_ORDINAL] = ordinal
    S[at + C_PREVIOUS] = A[A[X_TOPS] + number]
    S[at + C_BELOW] = A[X_LAST]
    S[at + C_FLAGS] = 0
    S[at + C_NAME] = name
    A[A[X_TOPS] + number] = at
    A[X_LAST] = at
    A[X_TOP] = at + P[step + SP_SIZE]
    if P[step + SP_TEXT]:
        A[X_TEXTERS] += 1
        S[at + C_FLAGS] = HOLDS_REFERENCES
        A[X_HOLDERS] += 1
    if P[step + SP_WILDS]:
        S[at + C_WILD] = A[X_WILD]
        A[X_WILD] = at
    if P[step + SP_KIND] == RUN_STEP:
        for k in range(CANDIDATE_WIDTH, P[step + SP_SIZE]):
            S[at + k] = 0
        S[at + M_OWNER] = A[X_OWNER]
        A[X_OWNER] = at
        begin_run(M, at)
    return int(at)


@compiled
def is_redundant(M: Space, step: int, above: int, candidate: int) -> bool:
    """Return whether a match of a step that returns nothing is redundant: its pattern or its requirement is decided."""
    S, P, A = M.stack, M.plan, M.head
    if above == 0:
        return bool(A[A[X_DECIDED] + P[step + SP_PATTERN]])
    if P[P[P_STEPS] + above * STEP_WIDTH + SP_KIND] == RUN_STEP:
        while S[candidate + M_DONE]:
            candidate = S[candidate + C_PREVIOUS] if P[step + SP_AXIS] == DESCENDANT else 0
            if candidate == 0:
                return True
    return bool(S[candidate + C_MARKS] & (1 << P[step + SP_BIT]))


@compiled
def counted(M: Space, step: int, depth: int) -> int:
    """Count an element among its siblings that pass the test of a step; return its position."""
    A, P = M.head, M.plan
    at = P[step + SP_COUNTER] * DEPTHS + depth
    parent = A[A[X_ORDINALS] + depth - 1]
    if A[A[X_COUNTED] + at] != parent + 1:
        A[A[X_COUNTED] + at] = parent + 1
        A[A[X_COUNTS] + at] = 0
    A[A[X_COUNTS] + at] += 1
    return int(A[A[X_COUNTS] + at])


@compiled
def match_step(M: Space, number: int, depth: int, name: int) -> None:
    """Match an element with the name of a step: if it is in the right place, mark the step or push a candidate."""
    S, P, A = M.stack, M.plan, M.head
    step = P[P_STEPS] + number * STEP_WIDTH
    if P[step + SP_LAST] >= 0:
        parked = A[X_PARKS] + P[step + SP_LAST] * DEPTHS + depth
        if A[parked] != 0:
            A[parked] = 0  # a later sibling passes the test
            A[X_PARKED] -= 1
    if P[step + SP_PLACE] != 0 and counted(M, step, depth) != P[step + SP_PLACE]:
        return
    above = P[step + SP_PARENT]
    candidate = nearest(M, above, depth - 1)
    if candidate == 0 or (P[step + SP_AXIS] == CHILD and S[candidate + C_DEPTH] != depth - 1):
        return
    if P[step + SP_RETURNS_BELOW] == 0:
        if is_redundant(M, step, above, candidate):
            return
        if P[step + SP_ALL] == 0:
            mark(M, number, depth - 1)
            return
    at = push_candidate(M, number, depth, A[X_ORDINAL], name)
    if P[step + SP_ALL] == 0:
        M.scratch[A[X_WORK]] = at
        A[X_WORK] += 1
    for k in range(P[step + SP_MACHINE_COUNT]):
        push_candidate(M, P[P[step + SP_MACHINES] + k], depth, A[X_ORDINAL], name)


@compiled
def match_leaves(M: Space, at: int, depth: int, name: int) -> None:
    """Match an element with the name of leaves: push their candidate if a step above any of them has one."""
    P, A = M.plan, M.head
    leaves = at
    while P[at]:
        above = P[P[P_STEPS] + P[at] * STEP_WIDTH + SP_PARENT]
        if nearest(M, above, depth - 1) != 0:
            M.stack[push_candidate(M, P[P_LEAVES], depth, A[X_ORDINAL], name) + C_OWN] = leaves
            return
        at += 1


@compiled
def close_leaves(M: Space, candidate: int) -> None:
    """Evaluate the leaves of an element after its text is complete."""
    S, P, A = M.stack, M.plan, M.head
    at, depth = S[candidate + C_OWN], S[candidate + C_DEPTH]
    while P[at]:
        number = P[at]
        at += 1
        step = P[P_STEPS] + number * STEP_WIDTH
        above = P[step + SP_PARENT]
        candidate_above = nearest(M, above, depth - 1)
        if candidate_above == 0 or (P[step + SP_AXIS] == CHILD and S[candidate_above + C_DEPTH] != depth - 1):
            continue
        if is_redundant(M, step, above, candidate_above):
            continue
        if tested(M, step, M.text, S[candidate + C_TEXT], A[X_TEXT]) == P[step + SP_ALL]:
            mark(M, number, depth - 1)


@compiled
def match_attribute(M: Space, number: int, name: int, begin: int, end: int) -> None:
    """Match an attribute with the name of a step; begin and end are offsets of its value in the values."""
    S, P, A = M.stack, M.plan, M.head
    step = P[P_STEPS] + number * STEP_WIDTH
    above, depth = P[step + SP_PARENT], A[X_DEPTH]
    candidate = nearest(M, above, depth)
    if candidate == 0 or (P[step + SP_AXIS] == CHILD and S[candidate + C_DEPTH] != depth):
        return
    if P[step + SP_RETURNS_BELOW] == 0 and is_redundant(M, step, above, candidate):
        return
    if tested(M, step, M.values, begin, end) != P[step + SP_ALL]:
        return
    mark(M, number, depth)
    if P[step + SP_RETURN]:
        propagate(M, candidate, result(M, A[X_ORDINAL], number, name, begin, end, 0), number)


@compiled
def pop(M: Space, candidate: int) -> None:
    """Pop the last candidate; its shared results go to the enclosing candidate of its step."""
    S, P, A = M.stack, M.plan, M.head
    number = S[candidate + C_STEP]
    step = P[P_STEPS] + number * STEP_WIDTH
    A[A[X_TOPS] + number] = S[candidate + C_PREVIOUS]
    A[X_LAST] = S[candidate + C_BELOW]
    A[X_TOP] = candidate
    if P[step + SP_TEXT]:
        A[X_TEXTERS] -= 1
    if P[step + SP_WILDS]:
        A[X_WILD] = S[candidate + C_WILD]
    release_references(M, candidate)
    enclosing = S[candidate + C_PREVIOUS]
    if P[step + SP_KIND] == RUN_STEP:
        A[X_OWNER] = S[candidate + M_OWNER]
        if enclosing != 0:
            ropes = P[step + SP_ROPES]
            for k in range(ropes):
                shared_rope = S[candidate + RUN_CANDIDATE_WIDTH + ropes + k]
                if shared_rope != 0:
                    child_rope = enclosing + RUN_CANDIDATE_WIDTH + k
                    S[child_rope] = rope(M, S[child_rope], shared_rope)
                    S[child_rope + ropes] = rope(M, S[child_rope + ropes], shared_rope)
                    retain(M, enclosing)
    elif enclosing != 0 and S[candidate + C_INHERITED] != 0:
        propagate(M, enclosing, S[candidate + C_INHERITED], number)


@compiled
def close(M: Space, candidate: int) -> None:
    """End the element of the last candidate on the stack."""
    S, P, A = M.stack, M.plan, M.head
    number, depth = S[candidate + C_STEP], S[candidate + C_DEPTH]
    step = P[P_STEPS] + number * STEP_WIDTH
    if P[step + SP_KIND] == RUN_STEP:
        end_runs(M, candidate)
        settle(M)
        pop(M, candidate)
        return
    if P[step + SP_KIND] == LEAF_STEP:
        close_leaves(M, candidate)
        S[candidate + C_OWN] = 0
        pop(M, candidate)
        return
    marks, required_marks = S[candidate + C_MARKS], P[step + SP_ALL]
    if P[step + SP_TEST_COUNT]:
        marks |= tested(M, step, M.text, S[candidate + C_TEXT], A[X_TEXT])
    waits_for_last = P[step + SP_LAST] >= 0
    if waits_for_last:
        marks |= 1 << P[step + SP_LAST_BIT]
    delivered = S[candidate + C_FLAGS] & DELIVERED
    results = 0
    if marks == required_marks and P[step + SP_RETURNS_BELOW]:
        results = S[candidate + C_OWN]
        if not (delivered and P[step + SP_FREE]):
            results = rope(M, results, S[candidate + C_INHERITED])
        if P[step + SP_RETURN]:
            begin = S[candidate + C_TEXT] if P[step + SP_TEXT] else A[X_TEXT]
            results = result(M, S[candidate + C_ORDINAL], number, S[candidate + C_NAME], begin, A[X_TEXT], results)
    pop(M, candidate)
    if marks != required_marks:
        return
    if waits_for_last:
        # Wait until another of its siblings passes the test, or their parent ends.
        A[A[X_PARKS] + P[step + SP_LAST] * DEPTHS + depth] = results + 1
        A[X_PARKED] += 1
        return
    if not delivered:
        mark(M, number, depth - 1)
    if results != 0:
        propagate(M, nearest(M, P[step + SP_PARENT], depth - 1), results, number)


@compiled
def unpark(M: Space, depth: int) -> None:
    """End the parent of elements at a depth: candidates that wait for ``[last()]`` are the last."""
    P, A = M.plan, M.head
    for number in range(1, P[P_STEP_COUNT]):
        step = P[P_STEPS] + number * STEP_WIDTH
        if P[step + SP_LAST] >= 0:
            at = A[X_PARKS] + P[step + SP_LAST] * DEPTHS + depth
            if A[at] != 0:
                results = A[at] - 1
                A[at] = 0
                A[X_PARKED] -= 1
                mark(M, number, depth - 1)
                if results != 0:
                    propagate(M, nearest(M, P[step + SP_PARENT], depth - 1), results, number)
                settle(M)


@compiled
def end_element(M: Space, depth: int) -> None:
    """End the element at a depth; depth 0 is the document."""
    S, A = M.stack, M.head
    if A[X_PARKED]:
        unpark(M, depth + 1)
    last = A[X_LAST]
    while last != 0 and S[last + C_DEPTH] == depth:
        if S[last + C_STEP] == 0:
            break
        close(M, last)
        if A[X_WORK]:
            settle(M)
        last = A[X_LAST]
    owner = A[X_OWNER]
    while owner != 0 and S[owner + C_DEPTH] == depth - 1:
        feed(M, owner, A[A[X_ORDINALS] + depth])
        if A[X_WORK]:
            settle(M)
        owner = S[owner + M_OWNER]


@compiled
def reset_unreferenced(M: Space) -> None:
    """Reset cells, text and values if no candidate and no queued result refers to them."""
    A = M.head
    if A[X_HOLDERS] == 0 and A[X_PARKED] == 0 and A[X_QUEUE] == 0:
        A[X_CELLS] = 1
        A[X_TEXT] = 0
        A[X_VALUES] = 0


@compiled
def has_capacity(M: Space, text: int) -> bool:
    """Return whether the arrays have the capacity for any token with ``text`` bytes of text."""
    P, A = M.plan, M.head
    words = A[X_TOP] + P[P_PUSHED]
    return bool(
        words <= A[X_STACK_END]
        and A[X_CELLS] + SPARE_CELLS * words + P[P_RUN_CELLS] + P[P_CHILD_CELLS] * A[X_BUFFERED] <= A[X_CELLS_END]
        and A[X_TEXT] + text <= A[X_TEXT_END]
        and A[X_VALUES] + text <= A[X_VALUES_END]
    )


@compiled
def match_steps(M: Space, at: int, depth: int, name: int) -> None:
    """Match an element with the steps of a list, steps below first, so that it is not its own parent; then leaves."""
    P = M.plan
    while P[at]:
        match_step(M, P[at], depth, name)
        at += 1
    if P[at + 1]:
        match_leaves(M, at + 1, depth, name)


@compiled
def element(M: Space, name: int) -> bool:
    """Process a start tag; return False, with nothing changed, if the steps of its name have to be looked up."""
    P, A = M.plan, M.head
    at = A[A[X_ELEMENTS] + name]
    if at < 0:
        return False
    A[X_DEPTH] += 1
    A[X_ORDINAL] = next_element(A[X_ORDINAL])
    A[A[X_ORDINALS] + A[X_DEPTH]] = A[X_ORDINAL]
    depth = A[X_DEPTH]
    if at:
        match_steps(M, at, depth, name)
    wild = A[X_WILD]
    while wild != 0 and M.stack[wild + C_DEPTH] >= depth:
        wild = M.stack[wild + C_WILD]  # a candidate of this element; its children follow
    while wild != 0 and M.stack[wild + C_DEPTH] == depth - 1:
        match_steps(M, P[P[P_STEPS] + M.stack[wild + C_STEP] * STEP_WIDTH + SP_WILDS], depth, name)
        wild = M.stack[wild + C_WILD]
    if A[X_WORK]:
        settle(M)
    return True


@compiled
def attribute(M: Space, D: Bytes, kind: int, name: int, begin: int, end: int) -> int:
    """Process an attribute; return a status."""
    P, A, V = M.plan, M.head, M.values
    at = A[A[X_ATTRIBUTES] + name]
    if at < 0:
        return NAMES
    A[X_ORDINAL] += 1
    if at:
        to = A[X_VALUES]
        if kind == ESCAPED_VALUE:
            to = read_escaped(D, begin, end, V, to, True)
            if to < 0:
                return ENTITY
        else:
            for k in range(begin, end):
                V[to + k - begin] = D[k]
            to += end - begin
        begin = A[X_VALUES]
        A[X_VALUES] = to
        while P[at]:
            match_attribute(M, P[at], name, begin, to)
            at += 1
        if A[X_WORK]:
            settle(M)
    return READ


@compiled
def characters(M: Space, D: Bytes, kind: int, begin: int, end: int, cut: int) -> int:
    """Append text that a candidate needs; return a status."""
    A, R = M.head, M.text
    to = A[X_TEXT]
    after_return = A[X_RETURN]
    A[X_RETURN] = 0
    if kind == TEXT:
        for k in range(begin, end):
            R[to + k - begin] = D[k]
        to += end - begin
    elif kind == ESCAPED:
        to = read_escaped(D, begin, end, R, to, False)
        if to < 0:
            return ENTITY
    else:
        to = read_cdata(D, begin, end, R, to, bool(after_return))
        # The input ends in this piece: a line feed that follows would belong to its last line end.
        A[X_RETURN] = 1 if end == cut and D[end - 1] == CARRIAGE_RETURN else 0
    A[X_TEXT] = to
    return READ


@compiled
def match_token(M: Space, D: Bytes, K: Tokens, at: int, cut: int) -> int:
    """Process one token; return a status. ROOM and NAMES leave the state unchanged."""
    A = M.head
    kind, name, begin, end = K[T_KIND, at], K[T_NAME, at], K[T_BEGIN, at], K[T_END, at]
    if kind == END:
        if not has_capacity(M, 0):
            return NO_CAPACITY
        end_element(M, A[X_DEPTH])
        A[X_DEPTH] -= 1
        return READ
    if kind == START:
        if not has_capacity(M, 0):
            return NO_CAPACITY
        if not element(M, name):
            A[X_UNKNOWN] = name
            return NAMES
        return READ
    is_value = kind == ATTRIBUTE or kind == ESCAPED_VALUE
    if not is_value and A[X_TEXTERS] == 0:
        return READ
    if not has_capacity(M, end - begin):
        return NO_CAPACITY
    if not is_value:
        return characters(M, D, kind, begin, end, cut)
    status = attribute(M, D, kind, name, begin, end)
    if status == NAMES:
        A[X_UNKNOWN] = -1 - name
    return status


@compiled
def match_on(M: Space, D: Bytes, K: Tokens, count: int, cut: int) -> int:
    """Process the tokens of a batch from X_AT, where it also stops; return a status."""
    A = M.head
    if not emit_queued(M):
        return ROWS
    while A[X_AT] < count:
        status = match_token(M, D, K, A[X_AT], cut)
        if status != READ:
            return status
        A[X_AT] += 1
        if A[X_QUEUE] and not emit_queued(M):
            return ROWS
        reset_unreferenced(M)
    return READ


@compiled
def begin(M: Space) -> None:
    """Begin a document: nothing is open but the document itself."""
    P, A = M.plan, M.head
    if A[X_PARKED]:  # left by an unfinished document
        for k in range(P[P_LASTS] * DEPTHS):
            A[A[X_PARKS] + k] = 0
    # Ordinals continue, so that position counters of other documents do not apply to this one.
    ordinal = next_element(A[X_ORDINAL])
    for word in range(X_BEGUN):
        A[word] = 0
    A[X_ORDINAL] = ordinal
    A[A[X_ORDINALS]] = ordinal
    A[X_TOP] = 1
    A[X_CELLS] = 1
    for number in range(P[P_STEP_COUNT]):
        A[A[X_TOPS] + number] = 0
    push_candidate(M, 0, 0, ordinal, -1)
    for k in range(P[P[P_STEPS] + SP_MACHINE_COUNT]):
        push_candidate(M, P[P[P[P_STEPS] + SP_MACHINES] + k], 0, ordinal, -1)
    for pattern in range(P[P_PATTERN_COUNT]):
        flags = P[P[P_PATTERNS] + pattern]
        A[A[X_DECIDED] + pattern] = 1 if flags & HOLDS_ALWAYS else 0
        if flags == HOLDS_ALWAYS:
            queue_output(M, -1 - pattern)


@compiled
def end_all(M: Space) -> int:
    """End the document; return a status."""
    if M.head[X_DEPTH] == 0:
        if not has_capacity(M, 0):
            return NO_CAPACITY
        end_element(M, 0)
        M.head[X_DEPTH] = -1
    return READ if emit_queued(M) else ROWS


@entry
def match_tokens(M: Space, D: Bytes, K: Tokens, count: int, cut: int) -> int:
    return match_on(M, D, K, count, cut)


@entry
def has_capacity_for(M: Space, text: int) -> bool:
    return has_capacity(M, text)


@entry
def begin_document(M: Space) -> None:
    begin(M)


@entry
def end_document(M: Space) -> int:
    return end_all(M)
