"""The scanner of documents against expat: the same tokens, and no document that expat rejects."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

import pytest

from perseid.engines.trees import layout as y
from perseid.engines.trees.judge import validate
from perseid.engines.trees.tokens import Scanner, UncertainError
from perseid.errors import DocumentError
from tests.semantics.tree_documents import random_document

Token = tuple[Any, ...]


def scanned(scanner: Scanner, data: bytes, cuts: list[int] | None = None, *, trusted: bool = False) -> list[Token]:
    """Starts, ends and attributes of a document, and its text, in one piece between two of them."""
    pieces = [data[a:b] for a, b in zip([0, *(cuts or [])], [*(cuts or []), len(data)], strict=True)]
    return whole(_tokens(scanner, lambda: pieces, trusted))


def _tokens(scanner: Scanner, chunks: Any, trusted: bool) -> Iterator[Token | None]:
    for batch in scanner.read(chunks, trusted=trusted):
        if batch is None:
            yield None
            continue
        for kind, name, begin, end in batch.tokens.T.tolist():
            text = batch.data[begin:end].tobytes().decode("utf-8", "surrogateescape")
            if kind in (y.START, y.END):
                yield "start" if kind == y.START else "end", scanner.name(name)
            elif kind in (y.ATTRIBUTE, y.ESCAPED_VALUE):
                yield "attribute", scanner.name(name), text
            else:
                yield "text", text


def whole(tokens: Iterator[Token | None]) -> list[Token]:
    found: list[Token] = []
    for token in tokens:
        if token is None:
            found = []
        elif token[0] == "text" and found and found[-1][0] == "text":
            found[-1] = ("text", found[-1][1] + token[1])
        else:
            found.append(token)
    return found


def parsed(data: bytes) -> list[Token]:
    """Returns the same tokens by expat."""
    found: list[Token | None] = []

    def name(text: str) -> tuple[str, str]:
        uri, _, local = text.rpartition("\x1f")
        return uri, local

    def start(tag: str, attributes: list[str]) -> None:
        found.append(("start", name(tag)))
        pairs = zip(attributes[::2], attributes[1::2], strict=True)
        found.extend(("attribute", name(one), value) for one, value in pairs)

    parser = expat.ParserCreate(namespace_separator="\x1f")
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: found.append(("end", name(tag)))
    parser.CharacterDataHandler = lambda text: found.append(("text", text))
    parser.Parse(data, True)
    return whole(iter(found))


def test_the_same_tokens() -> None:
    scanner = Scanner()
    for seed in range(300):
        chance = random.Random(seed)
        data = random_document(chance, 30).encode()
        assert scanned(scanner, data) == parsed(data), seed
        cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.randint(1, 6)))
        assert scanned(scanner, data, cuts) == parsed(data), (seed, cuts)


GOOD = [
    b"<a/>",
    b"\xef\xbb\xbf<a/>",
    b"<?xml version='1.0' encoding='UTF-8'?>\n<a>x</a>\n<!-- end --><?pi x?>",
    b"<a><![CDATA[ <b> ]] ]]></a>",
    b"<a x='1' y=\"'\">\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80</a>",
    b"<a><!-- - --><?b?><?c d?></a>",
    b"<p:a xmlns:p='u' p:k='1' k='2'><q:b xmlns:q='v' xmlns='w'><c/></q:b><c/></p:a>",
    b"<a xml:lang='is'/>",
    b"<a xmlns='u'><b xmlns=''/></a>",
    b"<a\n b = '1'\t/ >".replace(b"/ >", b"/>"),
    b"<a >x</a >",
    b"<a>]] ></a>",
]


@pytest.mark.parametrize("data", GOOD, ids=range(len(GOOD)))
def test_proved_well_formed(data: bytes) -> None:
    scanner = Scanner()
    tokens = whole(iter(_strict(scanner, data)))
    assert tokens == parsed(data)
    for at in range(len(data) + 1):
        assert scanned(scanner, data, [at]) == tokens, at


def _strict(scanner: Scanner, data: bytes) -> list[Token]:
    """The tokens of a document that the scanner accepts by itself."""
    for batch in scanner._read(lambda: [data], strict=True):
        assert batch.tokens.shape[1]
    return [token for token in _tokens(scanner, lambda: [data], False) if token is not None]


BAD = [
    b"",
    b" ",
    b"<a>",
    b"<a></b>",
    b"<a/><b/>",
    b"x<a/>",
    b"<a/>x",
    b"<a b='1' b='2'/>",
    b"<a b=1/>",
    b"<a b='<'/>",
    b"<a b='1'c='2'/>",
    b"<a>&nbsp;</a>",
    b"<a>&#0;</a>",
    b"<a>&#xD800;</a>",
    b"<a>&#x110000;</a>",
    b"<a>&</a>",
    b"<a>]]></a>",
    b"<a><!-- -- --></a>",
    b"<a><!-- --",
    b"<a>\x00</a>",
    b"<a>\x1f</a>",
    b"<a>\xff</a>",
    b"<a>\xc0\x80</a>",
    b"<a>\xed\xa0\x80</a>",
    b"<a>\xef\xbf\xbf</a>",
    b"<a>\xe2\x82</a>",
    b"<1a/>",
    b"<a:b/>",
    b"<a p:k='1'/>",
    b"<a:b:c xmlns:a='u'/>",
    b"<a xmlns:p=''/>",
    b"<a xmlns:xmlns='u'/>",
    b"<a xmlns:p='u' xmlns:q='u' p:k='1' q:k='2'/>",
    b"<?xml version='1.0'?><?xml version='1.0'?><a/>",
    b" <?xml version='1.0'?><a/>",
    b"<a><?xml x?></a>",
    b"<a><?XmL x?></a>",
    b"<![CDATA[x]]><a/>",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
    b"<!DOCTYPE a [<!ATTLIST a b CDATA 'c'>]><a/>",
    b"<a></a",
    b"<a><b></a></b>",
    b"< a/>",
    b"<a/ >",
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_refused(data: bytes) -> None:
    with pytest.raises(DocumentError):
        scanned(Scanner(), data)
    with pytest.raises(UncertainError):
        list(Scanner()._read(lambda: [data], strict=True))


def test_never_a_document_that_expat_refuses() -> None:
    scanner = Scanner()
    seen = {True: 0, False: 0}
    for seed in range(4_000):
        chance = random.Random(seed)
        data = bytearray(random_document(chance, 8).encode())
        for _ in range(chance.randint(0, 3)):
            mutate(chance, data)
        accepted = True
        try:
            list(scanner._read(lambda data=data: [bytes(data)], strict=True))
        except UncertainError:
            accepted = False
        if accepted:
            validate([bytes(data)])
        seen[accepted] += 1
    assert min(seen.values()) > 500


SNIPPETS = [
    b"<",
    b">",
    b"/",
    b"&",
    b"'",
    b'"',
    b"<!--",
    b"-->",
    b"--",
    b"]]>",
    b"<![CDATA[",
    b"&amp;",
    b"&#65;",
    b"<?x?>",
    b"\xc3\xa9",
    b"\x80",
    b"\x00",
    b":",
    b"=",
    b" ",
    b"xmlns='u'",
    b" xmlns:q='u'",
    b"<!DOCTYPE a>",
    b"</a>",
    b"<a>",
]


def mutate(chance: random.Random, data: bytearray) -> None:
    at = chance.randint(0, len(data))
    kind = chance.random()
    if kind < 0.3 and at < len(data):
        data[at] = chance.randint(0, 255)
    elif kind < 0.5:
        del data[at : at + chance.randint(1, 4)]
    elif kind < 0.8:
        data[at:at] = chance.choice(SNIPPETS)
    else:
        end = min(len(data), at + chance.randint(1, 12))
        data[at:at] = data[at:end]
