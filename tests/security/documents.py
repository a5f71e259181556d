"""Adversarial documents with their expected outcomes: the rows of the tables in ``docs/security.md``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MB = 1 << 20
CHUNK = 1 << 16


@dataclass(frozen=True)
class Read:
    """The document is read, with these numbers of elements, attributes and bytes of text."""

    elements: int
    attributes: int = 0
    text: int = 0

    def __str__(self) -> str:
        return "read"


@dataclass(frozen=True)
class AcceptedUnchecked:
    """Trusted mode accepts the document without checking well-formedness or declarations; its tokens are unspecified."""

    def __str__(self) -> str:
        return "accepted unchecked"


@dataclass(frozen=True)
class Rejected:
    """The document is rejected with a DocumentError."""

    message: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"rejected: {self.message} ({self.line}:{self.column})"


Outcome = Read | AcceptedUnchecked | Rejected
UNCHECKED = AcceptedUnchecked()


Chunks = Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Repeated:
    """The same bytes, repeated."""

    unit: bytes
    times: int

    def chunks(self) -> Iterator[bytes]:
        often = max(1, CHUNK // len(self.unit))
        yield from itertools.repeat(self.unit * often, self.times // often)
        yield self.unit * (self.times % often)


@dataclass(frozen=True)
class Numbered:
    """The same bytes for each number, which replaces every ``#``."""

    form: bytes
    numbers: range

    def chunks(self) -> Iterator[bytes]:
        for at in range(0, len(self.numbers), 1000):
            yield b"".join(self.form.replace(b"#", b"%d" % number) for number in self.numbers[at : at + 1000])


Part = bytes | Repeated | Numbered | Chunks


@dataclass(frozen=True)
class AdversarialDocument:
    group: str
    name: str
    data: bytes | tuple[Part, ...]
    """The whole document, or its parts if it must not be in memory as a whole."""
    safe: Outcome
    trusted: Outcome
    memory: int

    def chunks(self) -> Iterator[bytes]:
        for part in (self.data,) if isinstance(self.data, bytes) else self.data:
            if isinstance(part, bytes):
                yield part
            else:
                yield from part.chunks() if isinstance(part, Repeated | Numbered) else part()

    def __str__(self) -> str:
        return f"| {self.name} | {self.safe} | {self.trusted} |"


ROWS: list[AdversarialDocument] = []


def row(
    group: str, name: str, data: bytes | tuple[Part, ...], safe: Outcome, trusted: Outcome, memory: int = 64 * MB
) -> None:
    ROWS.append(AdversarialDocument(group, name, data, safe, trusted, memory))


def colliding_names() -> Iterator[bytes]:
    """Yield names that collide in a hash that multiplies by 33 and adds; the last name is repeated."""
    names = [b"".join(pairs) for pairs in itertools.product((b"ab", b"bA"), repeat=14)]
    yield b"<a>" + b"".join(b"<%s/>" % name for name in names)
    yield from Repeated(b"<%s/>" % names[-1], 200_000).chunks()
    yield b"</a>"


def names_in_namespaces() -> Iterator[bytes]:
    """Yield each of 250 names in each of 250 namespaces."""
    yield b"<a"
    yield from Numbered(b" xmlns:p#='u#'", range(250)).chunks()
    yield b">" + b"".join(b"<p%d:a%d/>" % pair for pair in itertools.product(range(250), repeat=2)) + b"</a>"


MILLION = range(1_000_000)
EXPAT_DECLARATION = b"<?xml version='1.1'?>"
"""Declaration with which the scanner leaves the document to expat, so that expat is tested with the same content."""
DEEP = "Elements are nested deeper than 10,000 levels"
ATTRIBUTES = "A tag has more than 10,000 attributes"
NAMES = "The document has more than 65,536 distinct names, or more than 4,194,304 bytes of them"
LONG_TAG = "A tag has more than 16,777,216 bytes"
LONG_TOKEN = "A tag, comment or processing instruction has more than 16,777,216 bytes"
SUBSET = "Unsupported document type with an internal subset (declarations)"
INVALID = "Not well-formed (invalid token)"
MISMATCH = "Encoding specified in XML declaration is incorrect"
BAD_BYTES = "Invalid bytes for the encoding of the document"
WRONG = "The XML is not well formed"
ENDS = "Unexpected end of document"

# entities and document types: nothing is loaded, nothing is expanded
G = "Entities and document types"
_LAUGHS = b"".join(b"<!ENTITY l%d '%s'>" % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))
row(
    G,
    "billion laughs",
    b"<!DOCTYPE a [<!ENTITY l0 'lol'>" + _LAUGHS + b"]><a>&l9;</a>",
    Rejected(SUBSET, 1, 13),
    UNCHECKED,
)
row(
    G,
    "quadratic blow-up",
    (b"<!DOCTYPE a [<!ENTITY b '", Repeated(b"x", 100_000), b"'>]><a>", Repeated(b"&b;", 10_000), b"</a>"),
    Rejected(SUBSET, 1, 13),
    UNCHECKED,
)
row(
    G,
    "entities that name each other",
    b"<!DOCTYPE a [<!ENTITY b '&c;'><!ENTITY c '&b;'>]><a>&b;</a>",
    Rejected(SUBSET, 1, 13),
    UNCHECKED,
)
row(
    G,
    "external entity",
    b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
    Rejected(SUBSET, 1, 13),
    UNCHECKED,
)
row(
    G,
    "external parameter entity",
    b"<!DOCTYPE a [<!ENTITY % b SYSTEM 'http://127.0.0.1/x'> %b;]><a/>",
    Rejected(SUBSET, 1, 13),
    UNCHECKED,
)
row(
    G,
    "external document type",
    b"<!DOCTYPE a SYSTEM 'http://127.0.0.1/x.dtd'><a>&uuml;</a>",
    Read(1, 0, 6),
    Read(1, 0, 6),
)
row(
    G,
    "external document type, for a standalone document",
    b"<?xml version='1.0' standalone='yes'?><!DOCTYPE a SYSTEM 'x'><a>&uuml;</a>",
    Rejected("Undefined entity", 1, 65),
    UNCHECKED,
)
row(G, "undeclared entity", b"<a>&uuml;</a>", Rejected("Undefined entity", 1, 4), UNCHECKED)
row(G, "internal subset", b"<!DOCTYPE a [<!ELEMENT a ANY>]><a/>", Rejected(SUBSET, 1, 13), UNCHECKED)
row(G, "internal subset, empty", b"<!DOCTYPE a []><a/>", Rejected(SUBSET, 1, 13), UNCHECKED)
row(
    G,
    "ATTLIST bomb",
    (
        b"<!DOCTYPE a [<!ATTLIST a ",
        Numbered(b"b# CDATA 'c' ", range(100_000)),
        b">]><a>",
        Repeated(b"<a/>", 100_000),
        b"</a>",
    ),
    Rejected(SUBSET, 1, 13),
    UNCHECKED,
)
row(G, "notations", b"<!DOCTYPE a [<!NOTATION n SYSTEM 'x'>]><a/>", Rejected(SUBSET, 1, 13), UNCHECKED)
row(G, "two document types", b"<!DOCTYPE a><!DOCTYPE a><a/>", Rejected("Syntax error", 1, 13), UNCHECKED)
row(G, "document type inside the root", b"<a><!DOCTYPE a></a>", Rejected(INVALID, 1, 6), Rejected(WRONG, 1, 4))
row(
    G,
    "document type without an end, 20 MB",
    (b"<!DOCTYPE a PUBLIC '", Repeated(b"x", 20 * MB)),
    Rejected(LONG_TOKEN, 1, 20),
    Rejected(LONG_TAG, 1, 1),
    128 * MB,
)
row(
    G,
    "reference without an end, 20 MB",
    (b"<a>&", Repeated(b"x", 20 * MB)),
    Rejected(LONG_TOKEN, 1, 4),
    Rejected(ENDS, 1, 20971525),
    128 * MB,
)

# limits
G = "Size limits"
row(G, "nesting, 10,000 deep", (Repeated(b"<a>", 10_000), Repeated(b"</a>", 10_000)), Read(10000), Read(10000))
row(
    G,
    "nesting, 10^6 deep",
    (Repeated(b"<a>", 1_000_000), Repeated(b"</a>", 1_000_000)),
    Rejected(DEEP, 1, 30001),
    Rejected(DEEP, 1, 30001),
)
row(
    G,
    "nesting, 10^6 deep, validated by expat",
    (EXPAT_DECLARATION, Repeated(b"<a>", 1_000_000), Repeated(b"</a>", 1_000_000)),
    Rejected(DEEP, 1, 30022),
    Rejected(DEEP, 1, 30022),
)
row(G, "attributes, 10,000", (b"<a", Numbered(b" b#='1'", range(10_000)), b"/>"), Read(1, 10000), Read(1, 10000))
row(
    G,
    "attributes, 10^6",
    (b"<a", Numbered(b" b#='1'", MILLION), b"/>"),
    Rejected(ATTRIBUTES, 1, 1),
    Rejected(ATTRIBUTES, 1, 1),
)
row(
    G,
    "attributes, 10^6, validated by expat",
    (EXPAT_DECLARATION, b"<a", Numbered(b" b#='1'", MILLION), b"/>"),
    Rejected(ATTRIBUTES, 1, 22),
    Rejected(ATTRIBUTES, 1, 22),
)
row(
    G,
    "namespace declarations, 10^6 in a tag",
    (b"<a", Numbered(b" xmlns:b#='u#'", MILLION), b"/>"),
    Rejected(ATTRIBUTES, 1, 1),
    Rejected(ATTRIBUTES, 1, 1),
)
row(
    G,
    "namespace declarations, 10^6 in a tag, validated by expat",
    (EXPAT_DECLARATION, b"<a", Numbered(b" xmlns:b#='u#'", MILLION), b"/>"),
    Rejected(ATTRIBUTES, 1, 22),
    Rejected(ATTRIBUTES, 1, 22),
)
row(
    G,
    "namespace declarations, 10^6 in as many tags",
    (b"<a>", Numbered(b"<b xmlns='u#'/>", MILLION), b"</a>"),
    Rejected(NAMES, 1, 1233945),
    Rejected(NAMES, 1, 1233945),
)
row(
    G,
    "namespace declarations at 9,000 depths",
    (Numbered(b"<a xmlns='u#'>", range(9_000)), Repeated(b"</a>", 9_000)),
    Read(9000),
    Read(9000),
)
row(G, "different names, 60,000", (b"<a>", Numbered(b"<b#/>", range(60_000)), b"</a>"), Read(60001), Read(60001))
row(
    G,
    "different names, 10^6",
    (b"<a>", Numbered(b"<b#/>", MILLION), b"</a>"),
    Rejected(NAMES, 1, 578664),
    Rejected(NAMES, 1, 578664),
)
row(
    G,
    "different names, 10^6, validated by expat",
    (EXPAT_DECLARATION, b"<a>", Numbered(b"<b#/>", MILLION), b"</a>"),
    Rejected(NAMES, 1, 578685),
    Rejected(NAMES, 1, 578685),
)
row(
    G, "names that collide in an unsalted hash (multiply by 33 and add)", (colliding_names,), Read(216385), Read(216385)
)
row(G, "names in 250 namespaces, 250 in each", (names_in_namespaces,), Read(62501), Read(62501))
row(G, "name of 1 MB", (b"<", Repeated(b"a", MB), b"/>"), Read(1), Read(1))
row(G, "name of 5 MB", (b"<", Repeated(b"a", 5 * MB), b"/>"), Rejected(NAMES, 1, 1), Rejected(NAMES, 1, 1))
row(G, "name of 20 MB", (b"<", Repeated(b"a", 20 * MB), b"/>"), Rejected(LONG_TAG, 1, 1), Rejected(LONG_TAG, 1, 1))
row(
    G,
    "namespace of 5 MB",
    (b"<a xmlns='", Repeated(b"u", 5 * MB), b"'/>"),
    Rejected(NAMES, 1, 1),
    Rejected(NAMES, 1, 1),
)
row(G, "attribute of 15 MB", (b"<a b='", Repeated(b"x", 15 * MB), b"'/>"), Read(1, 1), Read(1, 1))
row(
    G,
    "attribute of 15 MB, validated by expat",
    (EXPAT_DECLARATION + b"<a b='", Repeated(b"x", 15 * MB), b"'/>"),
    Read(1, 1),
    Read(1, 1),
    128 * MB,
)
row(
    G,
    "attribute of 100 MB",
    (b"<a b='", Repeated(b"x", 100 * MB), b"'/>"),
    Rejected(LONG_TAG, 1, 1),
    Rejected(LONG_TAG, 1, 1),
)
row(
    G,
    "attribute of 100 MB, validated by expat",
    (EXPAT_DECLARATION + b"<a b='", Repeated(b"x", 100 * MB), b"'/>"),
    Rejected(LONG_TOKEN, 1, 22),
    Rejected(LONG_TAG, 1, 22),
    128 * MB,
)
row(
    G,
    "attribute of 17 MB in one chunk",
    b"<a b='" + b"x" * (17 * MB) + b"'/>",
    Rejected(LONG_TAG, 1, 1),
    Rejected(LONG_TAG, 1, 1),
)
row(
    G,
    "white space in a start tag, 100 MB",
    (b"<a", Repeated(b" ", 100 * MB), b"/>"),
    Rejected(LONG_TAG, 1, 1),
    Rejected(LONG_TAG, 1, 1),
)
row(
    G,
    "white space in an end tag, 100 MB",
    (b"<a></a", Repeated(b" ", 100 * MB), b">"),
    Rejected(LONG_TAG, 1, 4),
    Rejected(LONG_TAG, 1, 4),
)
row(G, "text of 100 MB", (b"<a>", Repeated(b"x", 100 * MB), b"</a>"), Read(1, 0, 104857600), Read(1, 0, 104857600))
row(
    G,
    "text of 20 MB, validated by expat",
    (EXPAT_DECLARATION + b"<a>", Repeated(b"x", 20 * MB), b"</a>"),
    Read(1, 0, 20971520),
    Read(1, 0, 20971520),
)
row(G, "white space around the root, 100 MB", (b"<a/>", Repeated(b" ", 100 * MB), b" "), Read(1), Read(1))
row(G, "comment of 100 MB", (b"<a><!--", Repeated(b"x", 100 * MB), b"--></a>"), Read(1), Read(1))
row(
    G,
    "comment of 15 MB, validated by expat",
    (EXPAT_DECLARATION + b"<a><!--", Repeated(b"x", 15 * MB), b"--></a>"),
    Read(1),
    Read(1),
    128 * MB,
)
row(
    G,
    "comment of 100 MB, validated by expat",
    (EXPAT_DECLARATION + b"<a><!--", Repeated(b"x", 100 * MB), b"--></a>"),
    Rejected(LONG_TOKEN, 1, 25),
    Read(1),
    128 * MB,
)
row(G, "comments, 50 MB of them", (b"<a>", Repeated(b"<!---->", 50 * MB // 7), b"</a>"), Read(1), Read(1))
row(G, "processing instruction of 100 MB", (b"<?p ", Repeated(b"x", 100 * MB), b"?><a/>"), Read(1), Read(1))
row(
    G,
    "processing instruction of 100 MB, validated by expat",
    (EXPAT_DECLARATION + b"<?p ", Repeated(b"x", 100 * MB), b"?><a/>"),
    Rejected(LONG_TOKEN, 1, 22),
    Read(1),
    128 * MB,
)
row(G, "processing instructions, 50 MB of them", (b"<a>", Repeated(b"<?p?>", 50 * MB // 5), b"</a>"), Read(1), Read(1))
row(G, "processing instruction with a target of 1 MB", (b"<?", Repeated(b"p", MB), b"?><a/>"), Read(1), Read(1))
row(
    G,
    "CDATA of 100 MB",
    (b"<a><![CDATA[", Repeated(b"x", 100 * MB), b"]]></a>"),
    Read(1, 0, 104857600),
    Read(1, 0, 104857600),
)
row(G, "CDATA sections, 50 MB of them", (b"<a>", Repeated(b"<![CDATA[]]>", 50 * MB // 12), b"</a>"), Read(1), Read(1))
row(
    G,
    "brackets in CDATA, 50 MB of them",
    (b"<a><![CDATA[", Repeated(b"]", 50 * MB), b"]]></a>"),
    Read(1, 0, 52428800),
    Read(1, 0, 52428800),
)
row(
    G,
    "character references, 50 MB of them",
    (b"<a>", Repeated(b"&#65;", 50 * MB // 5), b"</a>"),
    Read(1, 0, 52428800),
    Read(1, 0, 52428800),
)
row(
    G,
    "character reference with 10^6 zeros",
    (b"<a>&#", Repeated(b"0", 1_000_000), b"65;</a>"),
    Read(1, 0, 1000005),
    Read(1, 0, 1000005),
)
row(
    G,
    "character reference with 10^6 digits",
    (b"<a>&#", Repeated(b"9", 1_000_000), b";</a>"),
    Rejected("Reference to invalid character number", 1, 4),
    UNCHECKED,
)
row(G, "elements, 20 MB of them", (b"<a>", Repeated(b"<b/>", 20 * MB // 4), b"</a>"), Read(5242881), Read(5242881))

# encodings
G = "Encodings"
_E = "\N{LATIN SMALL LETTER E WITH ACUTE}"
row(G, "UTF-8 with a byte order mark", b"\xef\xbb\xbf<a>\xc3\xa9</a>", Read(1, 0, 2), Read(1, 0, 2))
row(G, "byte order mark twice", b"\xef\xbb\xbf\xef\xbb\xbf<a/>", Rejected(INVALID, 1, 2), UNCHECKED)
row(G, "byte order mark alone", b"\xef\xbb\xbf", Rejected("No element found", 1, 2), Rejected(ENDS, 1, 2))
row(
    G,
    "UTF-16 with a byte order mark, little-endian",
    b"\xff\xfe" + f"<a>{_E}</a>".encode("utf-16-le"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "UTF-16 with a byte order mark, big-endian",
    b"\xfe\xff" + f"<a>{_E}</a>".encode("utf-16-be"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "UTF-16 without a byte order mark, little-endian",
    f"<a>{_E}</a>".encode("utf-16-le"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "UTF-16 without a byte order mark, big-endian",
    f"<a>{_E}</a>".encode("utf-16-be"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "UTF-16, cut in the middle of a character",
    "<a>x</a>".encode("utf-16-le") + b"\n",
    Rejected("Unclosed token", 1, 9),
    Rejected(BAD_BYTES, 1, 9),
)
row(
    G,
    "UTF-16 with half of a surrogate pair",
    "<a>x".encode("utf-16-le") + b"\x00\xd8" + "x</a>".encode("utf-16-le"),
    Rejected(BAD_BYTES, 1, 5),
    Rejected(BAD_BYTES, 1, 5),
)
row(
    G,
    "UTF-16 declared as UTF-8",
    b"\xff\xfe" + "<?xml version='1.0' encoding='utf-8'?><a/>".encode("utf-16-le"),
    Rejected(MISMATCH, 1, 32),
    UNCHECKED,
)
row(
    G,
    "UTF-8 declared as UTF-16",
    b"<?xml version='1.0' encoding='utf-16'?><a/>",
    Rejected("Unsupported encoding 'utf-16'", 1, 1),
    Rejected("Unsupported encoding 'utf-16'", 1, 1),
)
row(G, "UTF-32", "<a/>".encode("utf-32"), Rejected(INVALID, 1, 2), Rejected(WRONG, 1, 3))
row(
    G,
    "latin-1",
    f"<?xml version='1.0' encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "latin-1, XML version 1.1",
    f"<?xml version='1.1' encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "latin-1, XML declaration with 1,000 spaces",
    f"<?xml version='1.0' {' ' * 1000} encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "latin-1, XML declaration with 5,000 spaces",
    f"<?xml version='1.0' {' ' * 5000} encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Rejected("Unsupported XML declaration", 1, 1),
    Rejected("Unsupported XML declaration", 1, 1),
)
row(G, "latin-1 without an encoding declaration", f"<a>{_E}</a>".encode("latin-1"), Rejected(INVALID, 1, 4), UNCHECKED)
row(
    G,
    "windows-1252",
    "<?xml version='1.0' encoding='windows-1252'?><a>\N{EURO SIGN}</a>".encode("cp1252"),
    Read(1, 0, 3),
    Read(1, 0, 3),
)
row(
    G,
    "windows-1252 with an undefined byte",
    b"<?xml version='1.0' encoding='windows-1252'?><a>\x81</a>",
    Rejected(INVALID, 1, 49),
    Rejected(BAD_BYTES, 1, 49),
)
row(
    G,
    "ASCII with an undefined byte",
    b"<?xml version='1.0' encoding='us-ascii'?><a>\xe9</a>",
    Rejected(INVALID, 1, 45),
    Rejected(BAD_BYTES, 1, 45),
)
row(
    G,
    "Shift JIS",
    b"<?xml version='1.0' encoding='shift_jis'?><a>\x83\x5c</a>",
    Rejected("Unsupported encoding 'shift_jis'", 1, 1),
    Rejected("Unsupported encoding 'shift_jis'", 1, 1),
)
row(
    G,
    "UTF-7",
    b"<?xml version='1.0' encoding='utf-7'?><a>+ADw-b+AD4-</a>",
    Rejected("Unsupported encoding 'utf-7'", 1, 1),
    Rejected("Unsupported encoding 'utf-7'", 1, 1),
)
row(
    G,
    "EBCDIC",
    b"<?xml version='1.0' encoding='cp037'?><a/>",
    Rejected("Unknown encoding", 1, 31),
    Rejected(ENDS, 1, 43),
)
row(
    G,
    "unknown encoding",
    b"<?xml version='1.0' encoding='nobody'?><a/>",
    Rejected("Unsupported encoding 'nobody'", 1, 1),
    Rejected("Unsupported encoding 'nobody'", 1, 1),
)
row(
    G,
    "encoding that decompresses (zlib)",
    b"<?xml version='1.0' encoding='zlib'?><a/>",
    Rejected("Unsupported encoding 'zlib'", 1, 1),
    Rejected("Unsupported encoding 'zlib'", 1, 1),
)
row(
    G,
    "encoding with a slow decoder (punycode)",
    (b"<?xml version='1.0' encoding='punycode'?><a>", Repeated(b"a", 100_000), b"</a>"),
    Rejected("Unsupported encoding 'punycode'", 1, 1),
    Rejected("Unsupported encoding 'punycode'", 1, 1),
)
row(
    G,
    "encoding that can hide tags (unicode_escape)",
    b"<?xml version='1.0' encoding='unicode_escape'?><a>\\x3cb/\\x3e</a>",
    Rejected("Unsupported encoding 'unicode_escape'", 1, 1),
    Rejected("Unsupported encoding 'unicode_escape'", 1, 1),
)
row(G, "UTF-8, overlong", b"<a>\xc0\xbcb/\xc0\xbe</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "UTF-8 with surrogates", b"<a>\xed\xa0\xbd\xed\xb8\x80</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "UTF-8 beyond the last character", b"<a>\xf4\x90\x80\x80</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "UTF-8 of five bytes", b"<a>\xf8\x88\x80\x80\x80</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "UTF-8 continuation byte without a lead byte", b"<a>\x80</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "UTF-8, cut in the middle of a character", b"<a>\xe2\x82</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "bytes that never are UTF-8", b"<a>\xff</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "U+FFFF", b"<a>\xef\xbf\xbf</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "NUL in text", b"<a>x\x00y</a>", Rejected(INVALID, 1, 5), UNCHECKED)
row(G, "NUL in a name", b"<a\x00b/>", Rejected(INVALID, 1, 3), Rejected(WRONG, 1, 1))
row(G, "NUL behind the root", b"<a/>\x00", Rejected(INVALID, 1, 5), UNCHECKED)
row(G, "control character", b"<a>\x1b[2J</a>", Rejected(INVALID, 1, 4), UNCHECKED)
row(G, "control character in a value", b"<a b='\x01'/>", Rejected(INVALID, 1, 7), UNCHECKED)
row(G, "reference to NUL", b"<a>&#0;</a>", Rejected("Reference to invalid character number", 1, 4), UNCHECKED)
row(
    G,
    "reference to a surrogate",
    b"<a>&#xD800;</a>",
    Rejected("Reference to invalid character number", 1, 4),
    UNCHECKED,
)
row(
    G,
    "reference beyond the last character",
    b"<a>&#x110000;</a>",
    Rejected("Reference to invalid character number", 1, 4),
    UNCHECKED,
)
row(
    G,
    "two XML declarations",
    b"<?xml version='1.0'?><?xml version='1.0'?><a/>",
    Rejected("XML or text declaration not at start of entity", 1, 22),
    UNCHECKED,
)
row(
    G,
    "XML declaration behind a space",
    b" <?xml version='1.0'?><a/>",
    Rejected("XML or text declaration not at start of entity", 1, 2),
    UNCHECKED,
)
row(
    G,
    "XML declaration without a version",
    b"<?xml encoding='utf-8'?><a/>",
    Rejected("XML declaration not well-formed", 1, 7),
    Rejected("Unsupported XML declaration", 1, 1),
)

# structure
G = "Structure"
row(G, "empty document", b"", Rejected("No element found", 1, 1), Rejected(ENDS, 1, 1))
row(G, "white space alone", b" \n", Rejected("No element found", 2, 1), Rejected(ENDS, 2, 1))
row(G, "text alone", b"x", Rejected("Syntax error", 1, 1), Rejected(ENDS, 1, 2))
row(G, "truncated, an element is open", b"<a>\n<b></b>", Rejected("No element found", 2, 8), Rejected(ENDS, 2, 8))
row(G, "truncated in a tag", b"<a b='1", Rejected("Unclosed token", 1, 1), Rejected(ENDS, 1, 8))
row(G, "truncated in an end tag", b"<a></a", Rejected("Unclosed token", 1, 4), Rejected(ENDS, 1, 7))
row(G, "truncated in a comment", b"<a><!-- x", Rejected("Unclosed token", 1, 4), Rejected(ENDS, 1, 10))
row(G, "truncated in CDATA", b"<a><![CDATA[ x", Rejected("Unclosed CDATA section", 1, 15), Rejected(ENDS, 1, 15))
row(G, "truncated in a processing instruction", b"<a><?p x", Rejected("Unclosed token", 1, 4), Rejected(ENDS, 1, 9))
row(G, "truncated in a reference", b"<a>&am", Rejected("Unclosed token", 1, 4), Rejected(ENDS, 1, 7))
row(G, "two roots", b"<a/><b/>", Rejected("Junk after document element", 1, 5), Rejected(WRONG, 1, 5))
row(G, "text before the root", b"x<a/>", Rejected(INVALID, 1, 2), UNCHECKED)
row(G, "text behind the root", b"<a/>x", Rejected("Junk after document element", 1, 5), UNCHECKED)
row(
    G,
    "CDATA behind the root",
    b"<a/><![CDATA[x]]>",
    Rejected("Junk after document element", 1, 5),
    Rejected(WRONG, 1, 5),
)
row(G, "carriage return behind the root", b"<a/>\r", Read(1), Read(1))
row(G, "end tag of another element", b"<a>\n<b></c></a>", Rejected("Mismatched tag", 2, 6), UNCHECKED)
row(G, "end tag without an element", b"</a>", Rejected(INVALID, 1, 2), Rejected(WRONG, 1, 1))
row(G, "elements that overlap", b"<a><b></a></b>", Rejected("Mismatched tag", 1, 9), UNCHECKED)
row(G, "the same attribute twice", b"<a b='1' b='2'/>", Rejected("Duplicate attribute", 1, 10), Rejected(WRONG, 1, 1))
row(
    G,
    "the same attribute twice, under two prefixes",
    b"<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>",
    Rejected("Duplicate attribute", 1, 1),
    Rejected(WRONG, 1, 1),
)
row(G, "prefix of an element, not declared", b"<p:a/>", Rejected("Unbound prefix", 1, 1), Rejected(WRONG, 1, 1))
row(G, "prefix of an attribute, not declared", b"<a p:b='1'/>", Rejected("Unbound prefix", 1, 1), Rejected(WRONG, 1, 1))
row(
    G,
    "prefix that is no longer declared",
    b"<a><b xmlns:p='u'/><p:c/></a>",
    Rejected("Unbound prefix", 1, 20),
    Rejected(WRONG, 1, 20),
)
row(
    G,
    "prefix bound to an empty namespace",
    b"<a xmlns:p=''/>",
    Rejected("Must not undeclare prefix", 1, 1),
    Rejected(WRONG, 1, 1),
)
row(
    G,
    "prefix xmlns, declared",
    b"<a xmlns:xmlns='u'/>",
    Rejected("Reserved prefix (xmlns) must not be declared or undeclared", 1, 1),
    Rejected(WRONG, 1, 1),
)
row(
    G,
    "prefix xml for something else",
    b"<a xmlns:xml='u'/>",
    Rejected("Reserved prefix (xml) must not be undeclared or bound to another namespace name", 1, 1),
    Rejected(WRONG, 1, 1),
)
row(
    G,
    "prefix xml bound to its own namespace",
    b"<a xmlns:xml='http://www.w3.org/XML/1998/namespace' xml:lang='is'/>",
    Read(1, 1),
    Read(1, 1),
)
row(
    G,
    "letter beyond ASCII behind a prefix",
    "<p:\N{CYRILLIC SMALL LETTER ZHE} xmlns:p='u'/>".encode(),
    Read(1),
    Read(1),
)
row(G, "two colons in a name", b"<p:a:b xmlns:p='u'/>", Rejected(INVALID, 1, 5), Rejected(WRONG, 1, 1))
row(
    G,
    "namespace that looks like a prefixed name",
    b"<a xmlns='p:b'><p:b/></a>",
    Rejected("Unbound prefix", 1, 16),
    Rejected(WRONG, 1, 16),
)
row(G, "namespace with references", b"<a xmlns='u?v=1&amp;w=2'/>", Read(1), Read(1))
row(G, "less-than sign in a value", b"<a b='<'/>", Rejected(INVALID, 1, 7), UNCHECKED)
row(G, "value without quotes", b"<a b=1/>", Rejected(INVALID, 1, 6), Rejected(WRONG, 1, 1))
row(G, "]]> in text", b"<a>]]></a>", Rejected(INVALID, 1, 6), UNCHECKED)
row(G, "-- in a comment", b"<a><!-- -- --></a>", Rejected(INVALID, 1, 11), UNCHECKED)
row(G, "processing instruction named xml", b"<a><?XmL x?></a>", Rejected(INVALID, 1, 9), UNCHECKED)
row(G, "reference without a semicolon", b"<a>&amp</a>", Rejected(INVALID, 1, 8), Rejected(ENDS, 1, 12))
