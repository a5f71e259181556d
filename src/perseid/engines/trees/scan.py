"""The scanner: bytes of a document to columns of tokens, and in the same pass a proof that it is well formed.

It accepts a subset of XML: UTF-8 without a DTD, names in ASCII, the five predefined entities and character references,
tags that match, attributes that differ, prefixes that are declared. For anything else, malformed or only rare, it
returns DOUBT, and expat validates the document. If not strict, it reads a document that is validated or trusted.

A scan reads whole tokens only: if the input ends in one, the next call gets more input, from where that token began.
Texts, comments, instructions and CDATA may be of any length and are read in pieces.
"""

from __future__ import annotations

from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Ints, Tokens, WritableBytes, compiled, entry
from perseid.engines.trees.signs import *
from perseid.engines.trees.tags import doubt, end_tag, start_tag, write_token


@compiled
def is_comment(D: Bytes, at: int, end: int) -> int:
    """Return 1 if ``<!`` begins a comment, 0 if not, -1 if the input ends before that is decided."""
    if at + 3 >= end:
        return -1 if at + 2 >= end or D[at + 2] == MINUS else 0
    return 1 if D[at + 2] == MINUS and D[at + 3] == MINUS else 0


@compiled
def is_cdata(D: Bytes, at: int, end: int) -> int:
    """Return 1 if ``<!`` begins CDATA, 0 if not, -1 if the input ends before that is decided."""
    for k in range(CDATA_LENGTH):
        if at + k >= end:
            return -1
        if D[at + k] != CDATA_OPENS[k]:
            return 0
    return 1


@compiled
def doctype(A: Ints, D: Bytes, at: int, end: int) -> int:
    """Skip a document type without an internal subset, in a document that is validated or trusted."""
    quote, close = 0, at + 2
    while close < end:
        byte = D[close]
        if quote:
            if byte == quote:
                quote = 0
        elif byte == QUOTE or byte == APOSTROPHE:
            quote = byte
        elif byte == GREATER:
            A[H_AT] = close + 1
            return DONE
        close += 1
    A[H_AT] = at
    return MORE


@compiled
def instruction(A: Ints, D: Bytes, at: int, end: int) -> int:
    """Scan the beginning of ``<?target …?>``; return a scan status."""
    close = at + 2
    while close < end and IN_NAME[D[close]] and close < at + 64:
        if A[H_STRICT] and IN_NAME[D[close]] >= 3:
            return doubt(A, at, UNSURE)
        close += 1
    if close >= end:
        A[H_AT] = at
        return MORE
    if A[H_STRICT]:
        length = close - at - 2
        named_xml = length == 3 and D[at + 2] | 32 == 120 and D[at + 3] | 32 == 109 and D[at + 4] | 32 == 108
        odd = length == 0 or IN_NAME[D[at + 2]] != 1 or named_xml
        if odd or (D[close] != QUESTION and not is_space(D[close])):
            return doubt(A, at, UNSURE)
        if D[close] == QUESTION and (close + 1 >= end or D[close + 1] != GREATER):
            if close + 1 < end:
                return doubt(A, at, UNSURE)
            A[H_AT] = at
            return MORE
    A[H_MODE] = IN_INSTRUCTION
    A[H_AT] = close
    return DONE


@compiled
def markup(A: Ints, N: WritableBytes, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Scan anything that begins with ``<``; return a scan status."""
    if at + 1 >= end:
        A[H_AT] = at
        return MORE
    second = D[at + 1]
    if second == SLASH:
        return end_tag(A, N, D, K, at, end)
    if second == QUESTION:
        return instruction(A, D, at, end)
    if second != BANG:
        return start_tag(A, N, D, K, at, end)
    comment, characters = is_comment(D, at, end), is_cdata(D, at, end)
    if comment == 1:
        A[H_MODE] = IN_COMMENT
        A[H_AT] = at + 4
        return DONE
    if characters == 1 and A[H_DEPTH] > 0:
        A[H_MODE] = IN_CDATA
        A[H_AT] = at + CDATA_LENGTH
        return DONE
    if comment < 0 or characters < 0:
        A[H_AT] = at
        return MORE
    return doubt(A, at, UNSURE) if A[H_STRICT] or A[H_ROOTS] else doctype(A, D, at, end)


@compiled
def cdata(A: Ints, K: Tokens, begin: int, end: int) -> None:
    if A[H_TEXTS] and begin < end:
        write_token(K, A[H_TOKENS], CDATA, -1, begin, end)
        A[H_TOKENS] += 1


@compiled
def skip_piece(A: Ints, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Scan the rest, or a piece, of a comment, an instruction or CDATA; return a scan status."""
    mode, begin = A[H_MODE], at
    if mode == IN_CDATA and A[H_TEXTS] and A[H_TOKENS] + 1 > A[H_TOKEN_CAPACITY]:
        A[H_AT] = at
        return FULL
    while at < end:
        byte = D[at]
        if mode == IN_INSTRUCTION:
            if byte == QUESTION:
                if at + 1 >= end:
                    break
                if D[at + 1] == GREATER:
                    A[H_MODE] = OUTSIDE
                    A[H_AT] = at + 2
                    return DONE
        elif (mode == IN_COMMENT and byte == MINUS) or (mode == IN_CDATA and byte == BRACKET_CLOSE):
            if at + 2 >= end:
                break
            if D[at + 1] == byte:
                if D[at + 2] == GREATER:
                    if mode == IN_CDATA:
                        cdata(A, K, begin, at)
                    A[H_MODE] = OUTSIDE
                    A[H_AT] = at + 3
                    return DONE
                if mode == IN_COMMENT and A[H_STRICT]:
                    return doubt(A, at, UNSURE)
        if A[H_STRICT]:
            kind = IN_TEXT[byte]
            if kind == WIDE:
                length = wide(D, at, end)
                if length < 0:
                    break
                if length == 0:
                    return doubt(A, at, UNSURE)
                at += length - 1
            elif kind == FORBIDDEN:
                return doubt(A, at, UNSURE)
        at += 1
    if mode == IN_CDATA:
        cdata(A, K, begin, at)
    A[H_AT] = at
    return DONE if at >= end else MORE


@compiled
def text(A: Ints, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Scan text up to the next ``<``, or a piece of it; return a scan status."""
    if A[H_TOKENS] + 1 > A[H_TOKEN_CAPACITY]:
        A[H_AT] = at
        return FULL
    begin, kind, strict = at, TEXT, A[H_STRICT]
    status = DONE
    while True:
        at = after_plain(D, at, end)
        if at >= end:
            break
        is_ = IN_TEXT[D[at]]
        if is_ == OPENS:
            break
        if is_ == WIDE:
            length = wide(D, at, end) if strict else 1
            if length <= 0:
                if length == 0:
                    return doubt(A, at, UNSURE)
                status = MORE
                break
            at += length
        elif is_ == REFERS:
            # Also if not strict: a piece does not end within a reference.
            close = reference(D, at, end)
            if close < 0:
                status = MORE
                break
            if close == 0:
                if strict:
                    return doubt(A, at, UNSURE)
                close = at + 1
            kind = ESCAPED
            at = close
        elif is_ == RETURN:
            if at + 1 >= end and A[H_DEPTH] > 0:  # After the root there may be no more input.
                status = MORE
                break
            kind = ESCAPED
            at += 1
        elif is_ == BRACKET and strict:
            if at + 2 >= end:
                status = MORE
                break
            if D[at + 1] == BRACKET_CLOSE and D[at + 2] == GREATER:
                return doubt(A, at, UNSURE)
            at += 1
        elif is_ == FORBIDDEN and strict:
            return doubt(A, at, UNSURE)
        else:
            at += 1
    if A[H_DEPTH] == 0:
        if strict:
            for k in range(begin, at):
                if not is_space(D[k]):
                    return doubt(A, k, UNSURE)
    elif A[H_TEXTS] and begin < at:
        write_token(K, A[H_TOKENS], kind, -1, begin, at)
        A[H_TOKENS] += 1
    A[H_AT] = at
    return status


@compiled
def after_declaration(D: Bytes, at: int, end: int) -> int:
    """Return the offset after an XML declaration in its usual form, or of a ``<`` without one; -1 in other cases."""
    if end - at < 5 or D[at] != LESS or D[at + 1] != QUESTION:
        return at if at < end and D[at] == LESS else -1
    for k in range(DECLARED_LENGTH):
        if at + k >= end or D[at + k] != DECLARED[k]:
            return -1
    at += DECLARED_LENGTH
    if at + UTF_8_LENGTH < end and D[at] == SPACE:
        for k in range(UTF_8_LENGTH):
            byte = D[at + k]
            if byte != UTF_8[k] and not (65 <= byte <= 90 and byte + 32 == UTF_8[k]):
                return -1
        at += UTF_8_LENGTH
    if at + 1 < end and D[at] == QUESTION and D[at + 1] == GREATER:
        return at + 2
    return -1


@compiled
def begin_scan(A: Ints, strict: bool) -> None:
    """Begin a document: no open elements, no declared namespaces."""
    while A[H_SCOPES]:  # left by an unfinished document
        scope = A[H_SCOPE] + (A[H_SCOPES] - 1) * SCOPE_WIDTH
        A[A[H_RECORDS] + A[scope + S_PREFIX] * RECORD_WIDTH + R_BOUND] = A[scope + S_BEFORE]
        A[H_SCOPES] -= 1
    A[H_AT] = 0
    A[H_MODE] = OUTSIDE
    A[H_DEPTH] = 0
    A[H_ROOTS] = 0
    A[H_TOKENS] = 0
    A[H_EPOCH] += 1
    A[H_STRICT] = 1 if strict else 0


@compiled
def is_complete(A: Ints) -> bool:
    """Return whether the input so far is a complete document."""
    return bool(A[H_DEPTH] == 0 and A[H_ROOTS] == 2 and A[H_MODE] == OUTSIDE)


@compiled
def scan_next(A: Ints, N: WritableBytes, D: Bytes, K: Tokens, end: int) -> int:
    """Scan one tag, or a piece of something else, from H_AT; return a scan status."""
    at = A[H_AT]
    if A[H_MODE] != OUTSIDE:
        return skip_piece(A, D, K, at, end)
    if D[at] != LESS:
        return text(A, D, K, at, end)
    status = markup(A, N, D, K, at, end)
    if status == DONE and A[H_AT] - at > A[H_LONGEST]:
        return doubt(A, at, TOO_LONG)
    return status


@entry
def scan(A: Ints, N: WritableBytes, D: Bytes, K: Tokens, end: int) -> int:
    """Scan from H_AT to the end of the input; return a scan status. H_AT and H_TOKENS are updated."""
    status = DONE
    while A[H_AT] < end and status == DONE:
        status = scan_next(A, N, D, K, end)
    return status


@entry
def begin_scanning(A: Ints, strict: bool) -> None:
    begin_scan(A, strict)
