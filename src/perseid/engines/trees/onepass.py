"""Scanner and matcher in one pass: most of a document is matched as it is scanned.

Tags of known names without attributes, and plain texts, are never written as tokens. Most of them concern no candidate
and no step, and are skipped. Everything else is processed token by token.
"""

from __future__ import annotations

from perseid.engines.trees.cells import emit_queued
from perseid.engines.trees.kernel import (
    begin,
    element,
    end_all,
    end_element,
    has_capacity,
    match_on,
    next_element,
    reset_unreferenced,
)
from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Ints, Tokens, WritableBytes
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled, entry
from perseid.engines.trees.names import name_length, recent_name
from perseid.engines.trees.scan import after_declaration, begin_scan, is_complete, scan_next
from perseid.engines.trees.signs import GREATER, IN_TEXT, LESS, LINE_FEED, SLASH, WIDE, after_plain, wide
from perseid.engines.trees.vectors import REACH, WORD, plain_bytes, same_bytes


@compiled
def may_match(M: Space, at: int, depth: int) -> bool:
    """Return whether an element below this depth may be a candidate of a listed step; False only if it cannot."""
    S, P, A = M.stack, M.plan, M.head
    for _ in range(2):  # steps, then leaves
        while P[at]:
            step = P[P_STEPS] + P[at] * STEP_WIDTH
            candidate = A[A[X_TOPS] + P[step + SP_PARENT]]
            # No open candidate is deeper: the innermost one decides.
            if candidate != 0 and (P[step + SP_AXIS] != CHILD or S[candidate + C_DEPTH] == depth):
                return True
            if P[step + SP_PLACE] != 0 or P[step + SP_LAST] >= 0:
                return True  # positions are counted everywhere
            at += 1
        at += 1
    return False


@compiled
def after_text(D: Bytes, at: int, end: int, strict: bool) -> int:
    """Return the end of text that needs no processing; it is before the next tag if something in the text needs it."""
    while True:
        at = after_plain(D, at, end)
        if at >= end or IN_TEXT[D[at]] != WIDE:
            return at
        length = wide(D, at, end) if strict else 1
        if length <= 0:
            return at
        at += length


@compiled
def after_short_text(D: Bytes, at: int, end: int, strict: bool) -> int:
    """As ``after_text``, for a text that is most likely short; at least REACH bytes follow."""
    plain_length = plain_bytes(D, at)
    return (
        at + plain_length if plain_length < REACH and D[at + plain_length] == LESS else after_text(D, at, end, strict)
    )


@compiled
def read_plain(M: Space, A: Ints, N: WritableBytes, D: Bytes, at: int, end: int) -> int:
    """Read plain content inside an element; return the offset of the first byte that is not plain or needs capacity.

    It may stop at any tag or text, but must be right about those that it reads.
    """
    S, X = M.stack, M.head
    depth, ordinal, strict = A[H_DEPTH], X[X_ORDINAL], A[H_STRICT] != 0
    deepest, stack, epoch = A[H_DEEPEST], A[H_STACK], A[H_EPOCH]
    elements, ordinals = X[X_ELEMENTS], X[X_ORDINALS]
    # End tags of elements that declare namespaces are left to the scanner.
    floor = 1
    if A[H_SCOPES]:
        floor = max(1, A[A[H_SCOPE] + (A[H_SCOPES] - 1) * SCOPE_WIDTH + S_DEPTH])
    closing_depth, above, wild, touched = 0, -1, -1, True
    while at + 2 * REACH <= end:
        if touched:
            # Depths where an end tag affects a candidate or a run, and below which every start tag does.
            closing_depth = S[X[X_LAST] + C_DEPTH]
            above = S[X[X_OWNER] + C_DEPTH] + 1 if X[X_OWNER] != 0 else -1
            wild = S[X[X_WILD] + C_DEPTH] if X[X_WILD] != 0 else -1
        if D[at] != LESS:
            touched = False
            close = after_short_text(D, at, end, strict)
            if close >= end or D[close] != LESS:
                break
            if X[X_TEXTERS]:
                if not has_capacity(M, close - at):
                    break
                to = X[X_TEXT]
                for k in range(close - at):
                    M.text[to + k] = D[at + k]
                X[X_TEXT] = to + close - at
                X[X_RETURN] = 0
            at = close
            continue
        if D[at + 1] == SLASH:
            if depth <= floor:
                break
            record = A[stack + 2 * (depth - 1)]
            length = A[record + R_LENGTH]
            close = at + 2 + length
            if close + WORD >= end or D[close] != GREATER:
                break
            if strict and not same_bytes(D, at + 2, N, A[record + R_AT], length):
                break
            touched = depth == closing_depth or depth == above or X[X_PARKED] != 0
            if touched:
                if not has_capacity(M, 0):
                    break
                X[X_DEPTH], X[X_ORDINAL] = depth, ordinal
                end_element(M, depth)
            depth -= 1
        else:
            length = name_length(D, at + 1, end)
            close = at + 1 + length
            if length == 0 or D[close] != GREATER or depth >= deepest:
                break
            record = recent_name(A, N, D, at + 1, length)
            if record == 0 or A[record + R_EPOCH] != epoch:
                break
            name = A[record + R_EXPANDED]
            steps = X[elements + name]
            if steps < 0:
                break
            touched = depth == wild or (steps != 0 and may_match(M, steps, depth))
            if touched:
                if not has_capacity(M, 0):
                    break
                X[X_DEPTH], X[X_ORDINAL] = depth, ordinal
                element(M, name)
                ordinal = X[X_ORDINAL]
                depth += 1
            else:
                ordinal = next_element(ordinal)
                if X[X_TEXTERS] == 0 and depth + 1 != above and X[X_PARKED] == 0:
                    # Most elements have text and no more: they need no state.
                    text_end = after_short_text(D, close + 1, end, strict)
                    if text_end + length + 2 * REACH <= end and D[text_end] == LESS:
                        if (
                            D[text_end + 1] == SLASH
                            and D[text_end + 2 + length] == GREATER
                            and (not strict or same_bytes(D, text_end + 2, N, A[record + R_AT], length))
                        ):
                            at = text_end + 3 + length
                            if D[at] == LINE_FEED and D[at + 1] == LESS:
                                at += 1
                            continue
                        close = text_end - 1
                depth += 1
                X[ordinals + depth] = ordinal
            A[stack + 2 * (depth - 1)] = record
            A[stack + 2 * (depth - 1) + 1] = name
        at = close + 1
        if touched:
            if X[X_QUEUE] and not emit_queued(M):
                break
            reset_unreferenced(M)
    A[H_DEPTH] = X[X_DEPTH] = depth
    X[X_ORDINAL] = ordinal
    return int(at)


@compiled
def read_on(M: Space, A: Ints, N: WritableBytes, D: Bytes, K: Tokens, end: int) -> int:
    """Scan and match from the current offsets; return the scan status, or the matcher's status with tokens left."""
    X, scan_status = M.head, DONE
    while True:
        match_status = match_on(M, D, K, A[H_TOKENS], end)
        if match_status != READ:
            return match_status
        A[H_TOKENS] = X[X_AT] = 0
        if scan_status != DONE or A[H_AT] >= end:
            return scan_status
        if A[H_MODE] == OUTSIDE and A[H_DEPTH] > 0:
            A[H_AT] = read_plain(M, A, N, D, A[H_AT], end)
            if X[X_QUEUE] or A[H_AT] >= end:
                continue
        scan_status = scan_next(A, N, D, K, end)
        if scan_status == DOUBT:
            A[H_TOKENS] = 0  # those of the construct in doubt
            return DOUBT


@entry
def read_bytes(M: Space, A: Ints, N: WritableBytes, D: Bytes, K: Tokens, end: int) -> int:
    return read_on(M, A, N, D, K, end)


@compiled
def match_document(M: Space, A: Ints, N: WritableBytes, D: Bytes, K: Tokens, at: int, end: int, strict: bool) -> int:
    """Match a small document as a whole; return a status, which is ODD if the batch path cannot read it."""
    at = after_declaration(D, at, end)
    if at < 0:
        return ODD
    begin_scan(A, strict)
    begin(M)
    A[H_AT] = at
    status = read_on(M, A, N, D, K, end)
    if status == MORE or status == DOUBT or status == FULL:
        return ODD
    if status != READ:
        return status
    return end_all(M) if is_complete(A) else ODD


@entry
def match_documents(
    M: Space, A: Ints, N: WritableBytes, D: Bytes, K: Tokens, offsets: Ints, rows_at_end: Ints, strict: bool
) -> int:
    """Match small documents in sequence, from X_DOCUMENT on; return a status.

    It stops at the first one with another status than READ, and drops its rows. ``rows_at_end``: by document, the row count at
    its end.
    """
    H = M.head
    while H[X_DOCUMENT] < H[X_DOCUMENTS]:
        number = H[X_DOCUMENT]
        rows, size = H[X_ROWS], H[X_OUT_BYTES]
        status = match_document(M, A, N, D, K, offsets[number], offsets[number + 1], strict)
        if status != READ:
            H[X_ROWS] = rows
            H[X_OUT_BYTES] = size
            return status
        rows_at_end[number] = H[X_ROWS]
        H[X_DOCUMENT] = number + 1
    return READ
