"""Documents that are meant to hurt, and what becomes of each: the rows of the tables in ``docs/security.md``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MB = 1 << 20
CHUNK = 1 << 16


@dataclass(frozen=True)
class Read:
    """It is read: so many elements, attributes and bytes of text."""

    elements: int
    attributes: int = 0
    text: int = 0

    def __str__(self) -> str:
        return "read"


@dataclass(frozen=True)
class Taken:
    """It is not well formed, or declares something, and trusted mode does not ask: what its tokens are is not said."""

    def __str__(self) -> str:
        return "accepted unchecked"


@dataclass(frozen=True)
class Refused:
    """A DocumentError."""

    message: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"rejected: {self.message} ({self.line}:{self.column})"


Outcome = Read | Taken | Refused
TAKEN = Taken()


Chunks = Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Many:
    """The same again and again."""

    again: bytes
    times: int

    def chunks(self) -> Iterator[bytes]:
        often = max(1, CHUNK // len(self.again))
        yield from itertools.repeat(self.again * often, self.times // often)
        yield self.again * (self.times % often)


@dataclass(frozen=True)
class Each:
    """The same for each number, which stands where a ``#`` is."""

    form: bytes
    numbers: range

    def chunks(self) -> Iterator[bytes]:
        for at in range(0, len(self.numbers), 1000):
            yield b"".join(self.form.replace(b"#", b"%d" % number) for number in self.numbers[at : at + 1000])


Part = bytes | Many | Each | Chunks


@dataclass(frozen=True)
class Hostile:
    group: str
    name: str
    data: bytes | tuple[Part, ...]
    """All of it, or what it consists of where it is never whole in memory."""
    safe: Outcome
    trusted: Outcome
    memory: int

    def chunks(self) -> Iterator[bytes]:
        for part in (self.data,) if isinstance(self.data, bytes) else self.data:
            if isinstance(part, bytes):
                yield part
            else:
                yield from part.chunks() if isinstance(part, Many | Each) else part()

    def __str__(self) -> str:
        return f"| {self.name} | {self.safe} | {self.trusted} |"


ROWS: list[Hostile] = []


def row(
    group: str, name: str, data: bytes | tuple[Part, ...], safe: Outcome, trusted: Outcome, memory: int = 64 * MB
) -> None:
    ROWS.append(Hostile(group, name, data, safe, trusted, memory))


def alike() -> Iterator[bytes]:
    """Names of one hash, where that multiplies by 33 and adds; the last of them again and again."""
    names = [b"".join(pairs) for pairs in itertools.product((b"ab", b"bA"), repeat=14)]
    yield b"<a>" + b"".join(b"<%s/>" % name for name in names)
    yield from Many(b"<%s/>" % names[-1], 200_000).chunks()
    yield b"</a>"


def crossed() -> Iterator[bytes]:
    """Every one of 250 names in every one of 250 namespaces."""
    yield b"<a"
    yield from Each(b" xmlns:p#='u#'", range(250)).chunks()
    yield b">" + b"".join(b"<p%d:a%d/>" % pair for pair in itertools.product(range(250), repeat=2)) + b"</a>"


MILLION = range(1_000_000)
JUDGED = b"<?xml version='1.1'?>"
"""What the scanner leaves to expat, so that expat meets the rest."""
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
row(G, "billion laughs", b"<!DOCTYPE a [<!ENTITY l0 'lol'>" + _LAUGHS + b"]><a>&l9;</a>", Refused(SUBSET, 1, 13), TAKEN)
row(
    G,
    "quadratic blow-up",
    (b"<!DOCTYPE a [<!ENTITY b '", Many(b"x", 100_000), b"'>]><a>", Many(b"&b;", 10_000), b"</a>"),
    Refused(SUBSET, 1, 13),
    TAKEN,
)
row(
    G,
    "entities that name each other",
    b"<!DOCTYPE a [<!ENTITY b '&c;'><!ENTITY c '&b;'>]><a>&b;</a>",
    Refused(SUBSET, 1, 13),
    TAKEN,
)
row(
    G,
    "external entity",
    b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
    Refused(SUBSET, 1, 13),
    TAKEN,
)
row(
    G,
    "external parameter entity",
    b"<!DOCTYPE a [<!ENTITY % b SYSTEM 'http://127.0.0.1/x'> %b;]><a/>",
    Refused(SUBSET, 1, 13),
    TAKEN,
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
    Refused("Undefined entity", 1, 65),
    TAKEN,
)
row(G, "undeclared entity", b"<a>&uuml;</a>", Refused("Undefined entity", 1, 4), TAKEN)
row(G, "internal subset", b"<!DOCTYPE a [<!ELEMENT a ANY>]><a/>", Refused(SUBSET, 1, 13), TAKEN)
row(G, "internal subset, empty", b"<!DOCTYPE a []><a/>", Refused(SUBSET, 1, 13), TAKEN)
row(
    G,
    "ATTLIST bomb",
    (b"<!DOCTYPE a [<!ATTLIST a ", Each(b"b# CDATA 'c' ", range(100_000)), b">]><a>", Many(b"<a/>", 100_000), b"</a>"),
    Refused(SUBSET, 1, 13),
    TAKEN,
)
row(G, "notations", b"<!DOCTYPE a [<!NOTATION n SYSTEM 'x'>]><a/>", Refused(SUBSET, 1, 13), TAKEN)
row(G, "two document types", b"<!DOCTYPE a><!DOCTYPE a><a/>", Refused("Syntax error", 1, 13), TAKEN)
row(G, "document type inside the root", b"<a><!DOCTYPE a></a>", Refused(INVALID, 1, 6), Refused(WRONG, 1, 4))
row(
    G,
    "document type without an end, 20 MB",
    (b"<!DOCTYPE a PUBLIC '", Many(b"x", 20 * MB)),
    Refused(LONG_TOKEN, 1, 20),
    Refused(LONG_TAG, 1, 1),
    128 * MB,
)
row(
    G,
    "reference without an end, 20 MB",
    (b"<a>&", Many(b"x", 20 * MB)),
    Refused(LONG_TOKEN, 1, 4),
    Refused(ENDS, 1, 20971525),
    128 * MB,
)

# how much there may be of something
G = "Size limits"
row(G, "nesting, 10,000 deep", (Many(b"<a>", 10_000), Many(b"</a>", 10_000)), Read(10000), Read(10000))
row(
    G,
    "nesting, 10^6 deep",
    (Many(b"<a>", 1_000_000), Many(b"</a>", 1_000_000)),
    Refused(DEEP, 1, 30001),
    Refused(DEEP, 1, 30001),
)
row(
    G,
    "nesting, 10^6 deep, validated by expat",
    (JUDGED, Many(b"<a>", 1_000_000), Many(b"</a>", 1_000_000)),
    Refused(DEEP, 1, 30022),
    Refused(DEEP, 1, 30022),
)
row(G, "attributes, 10,000", (b"<a", Each(b" b#='1'", range(10_000)), b"/>"), Read(1, 10000), Read(1, 10000))
row(
    G,
    "attributes, 10^6",
    (b"<a", Each(b" b#='1'", MILLION), b"/>"),
    Refused(ATTRIBUTES, 1, 1),
    Refused(ATTRIBUTES, 1, 1),
)
row(
    G,
    "attributes, 10^6, validated by expat",
    (JUDGED, b"<a", Each(b" b#='1'", MILLION), b"/>"),
    Refused(ATTRIBUTES, 1, 22),
    Refused(ATTRIBUTES, 1, 22),
)
row(
    G,
    "namespace declarations, 10^6 in a tag",
    (b"<a", Each(b" xmlns:b#='u#'", MILLION), b"/>"),
    Refused(ATTRIBUTES, 1, 1),
    Refused(ATTRIBUTES, 1, 1),
)
row(
    G,
    "namespace declarations, 10^6 in a tag, validated by expat",
    (JUDGED, b"<a", Each(b" xmlns:b#='u#'", MILLION), b"/>"),
    Refused(ATTRIBUTES, 1, 22),
    Refused(ATTRIBUTES, 1, 22),
)
row(
    G,
    "namespace declarations, 10^6 in as many tags",
    (b"<a>", Each(b"<b xmlns='u#'/>", MILLION), b"</a>"),
    Refused(NAMES, 1, 1233945),
    Refused(NAMES, 1, 1233945),
)
row(
    G,
    "namespace declarations at 9,000 depths",
    (Each(b"<a xmlns='u#'>", range(9_000)), Many(b"</a>", 9_000)),
    Read(9000),
    Read(9000),
)
row(G, "different names, 60,000", (b"<a>", Each(b"<b#/>", range(60_000)), b"</a>"), Read(60001), Read(60001))
row(
    G,
    "different names, 10^6",
    (b"<a>", Each(b"<b#/>", MILLION), b"</a>"),
    Refused(NAMES, 1, 578664),
    Refused(NAMES, 1, 578664),
)
row(
    G,
    "different names, 10^6, validated by expat",
    (JUDGED, b"<a>", Each(b"<b#/>", MILLION), b"</a>"),
    Refused(NAMES, 1, 578685),
    Refused(NAMES, 1, 578685),
)
row(G, "names that collide in an unsalted hash (multiply by 33 and add)", (alike,), Read(216385), Read(216385))
row(G, "names in 250 namespaces, 250 in each", (crossed,), Read(62501), Read(62501))
row(G, "name of 1 MB", (b"<", Many(b"a", MB), b"/>"), Read(1), Read(1))
row(G, "name of 5 MB", (b"<", Many(b"a", 5 * MB), b"/>"), Refused(NAMES, 1, 1), Refused(NAMES, 1, 1))
row(G, "name of 20 MB", (b"<", Many(b"a", 20 * MB), b"/>"), Refused(LONG_TAG, 1, 1), Refused(LONG_TAG, 1, 1))
row(G, "namespace of 5 MB", (b"<a xmlns='", Many(b"u", 5 * MB), b"'/>"), Refused(NAMES, 1, 1), Refused(NAMES, 1, 1))
row(G, "attribute of 15 MB", (b"<a b='", Many(b"x", 15 * MB), b"'/>"), Read(1, 1), Read(1, 1))
row(
    G,
    "attribute of 15 MB, validated by expat",
    (JUDGED + b"<a b='", Many(b"x", 15 * MB), b"'/>"),
    Read(1, 1),
    Read(1, 1),
    128 * MB,
)
row(
    G,
    "attribute of 100 MB",
    (b"<a b='", Many(b"x", 100 * MB), b"'/>"),
    Refused(LONG_TAG, 1, 1),
    Refused(LONG_TAG, 1, 1),
)
row(
    G,
    "attribute of 100 MB, validated by expat",
    (JUDGED + b"<a b='", Many(b"x", 100 * MB), b"'/>"),
    Refused(LONG_TOKEN, 1, 22),
    Refused(LONG_TAG, 1, 22),
    128 * MB,
)
row(
    G,
    "attribute of 17 MB in one chunk",
    b"<a b='" + b"x" * (17 * MB) + b"'/>",
    Refused(LONG_TAG, 1, 1),
    Refused(LONG_TAG, 1, 1),
)
row(
    G,
    "white space in a start tag, 100 MB",
    (b"<a", Many(b" ", 100 * MB), b"/>"),
    Refused(LONG_TAG, 1, 1),
    Refused(LONG_TAG, 1, 1),
)
row(
    G,
    "white space in an end tag, 100 MB",
    (b"<a></a", Many(b" ", 100 * MB), b">"),
    Refused(LONG_TAG, 1, 4),
    Refused(LONG_TAG, 1, 4),
)
row(G, "text of 100 MB", (b"<a>", Many(b"x", 100 * MB), b"</a>"), Read(1, 0, 104857600), Read(1, 0, 104857600))
row(
    G,
    "text of 20 MB, validated by expat",
    (JUDGED + b"<a>", Many(b"x", 20 * MB), b"</a>"),
    Read(1, 0, 20971520),
    Read(1, 0, 20971520),
)
row(G, "white space around the root, 100 MB", (b"<a/>", Many(b" ", 100 * MB), b" "), Read(1), Read(1))
row(G, "comment of 100 MB", (b"<a><!--", Many(b"x", 100 * MB), b"--></a>"), Read(1), Read(1))
row(
    G,
    "comment of 15 MB, validated by expat",
    (JUDGED + b"<a><!--", Many(b"x", 15 * MB), b"--></a>"),
    Read(1),
    Read(1),
    128 * MB,
)
row(
    G,
    "comment of 100 MB, validated by expat",
    (JUDGED + b"<a><!--", Many(b"x", 100 * MB), b"--></a>"),
    Refused(LONG_TOKEN, 1, 25),
    Read(1),
    128 * MB,
)
row(G, "comments, 50 MB of them", (b"<a>", Many(b"<!---->", 50 * MB // 7), b"</a>"), Read(1), Read(1))
row(G, "processing instruction of 100 MB", (b"<?p ", Many(b"x", 100 * MB), b"?><a/>"), Read(1), Read(1))
row(
    G,
    "processing instruction of 100 MB, validated by expat",
    (JUDGED + b"<?p ", Many(b"x", 100 * MB), b"?><a/>"),
    Refused(LONG_TOKEN, 1, 22),
    Read(1),
    128 * MB,
)
row(G, "processing instructions, 50 MB of them", (b"<a>", Many(b"<?p?>", 50 * MB // 5), b"</a>"), Read(1), Read(1))
row(G, "processing instruction with a target of 1 MB", (b"<?", Many(b"p", MB), b"?><a/>"), Read(1), Read(1))
row(
    G,
    "CDATA of 100 MB",
    (b"<a><![CDATA[", Many(b"x", 100 * MB), b"]]></a>"),
    Read(1, 0, 104857600),
    Read(1, 0, 104857600),
)
row(G, "CDATA sections, 50 MB of them", (b"<a>", Many(b"<![CDATA[]]>", 50 * MB // 12), b"</a>"), Read(1), Read(1))
row(
    G,
    "brackets in CDATA, 50 MB of them",
    (b"<a><![CDATA[", Many(b"]", 50 * MB), b"]]></a>"),
    Read(1, 0, 52428800),
    Read(1, 0, 52428800),
)
row(
    G,
    "character references, 50 MB of them",
    (b"<a>", Many(b"&#65;", 50 * MB // 5), b"</a>"),
    Read(1, 0, 52428800),
    Read(1, 0, 52428800),
)
row(
    G,
    "character reference with 10^6 zeros",
    (b"<a>&#", Many(b"0", 1_000_000), b"65;</a>"),
    Read(1, 0, 1000005),
    Read(1, 0, 1000005),
)
row(
    G,
    "character reference with 10^6 digits",
    (b"<a>&#", Many(b"9", 1_000_000), b";</a>"),
    Refused("Reference to invalid character number", 1, 4),
    TAKEN,
)
row(G, "elements, 20 MB of them", (b"<a>", Many(b"<b/>", 20 * MB // 4), b"</a>"), Read(5242881), Read(5242881))

# encodings
G = "Encodings"
_E = "\N{LATIN SMALL LETTER E WITH ACUTE}"
row(G, "UTF-8 with a byte order mark", b"\xef\xbb\xbf<a>\xc3\xa9</a>", Read(1, 0, 2), Read(1, 0, 2))
row(G, "byte order mark twice", b"\xef\xbb\xbf\xef\xbb\xbf<a/>", Refused(INVALID, 1, 2), TAKEN)
row(G, "byte order mark alone", b"\xef\xbb\xbf", Refused("No element found", 1, 2), Refused(ENDS, 1, 2))
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
    Refused("Unclosed token", 1, 9),
    Refused(BAD_BYTES, 1, 9),
)
row(
    G,
    "UTF-16 with half of a surrogate pair",
    "<a>x".encode("utf-16-le") + b"\x00\xd8" + "x</a>".encode("utf-16-le"),
    Refused(BAD_BYTES, 1, 5),
    Refused(BAD_BYTES, 1, 5),
)
row(
    G,
    "UTF-16 declared as UTF-8",
    b"\xff\xfe" + "<?xml version='1.0' encoding='utf-8'?><a/>".encode("utf-16-le"),
    Refused(MISMATCH, 1, 32),
    TAKEN,
)
row(
    G,
    "UTF-8 declared as UTF-16",
    b"<?xml version='1.0' encoding='utf-16'?><a/>",
    Refused("Unsupported encoding 'utf-16'", 1, 1),
    Refused("Unsupported encoding 'utf-16'", 1, 1),
)
row(G, "UTF-32", "<a/>".encode("utf-32"), Refused(INVALID, 1, 2), Refused(WRONG, 1, 3))
row(
    G,
    "latin-1",
    f"<?xml version='1.0' encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "latin-1, of version 1.1",
    f"<?xml version='1.1' encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "latin-1 behind 1,000 spaces",
    f"<?xml version='1.0' {' ' * 1000} encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Read(1, 0, 2),
    Read(1, 0, 2),
)
row(
    G,
    "latin-1 behind 5,000 spaces",
    f"<?xml version='1.0' {' ' * 5000} encoding='iso-8859-1'?><a>{_E}</a>".encode("latin-1"),
    Refused("Unsupported XML declaration", 1, 1),
    Refused("Unsupported XML declaration", 1, 1),
)
row(G, "latin-1 without an encoding declaration", f"<a>{_E}</a>".encode("latin-1"), Refused(INVALID, 1, 4), TAKEN)
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
    Refused(INVALID, 1, 49),
    Refused(BAD_BYTES, 1, 49),
)
row(
    G,
    "ASCII with an undefined byte",
    b"<?xml version='1.0' encoding='us-ascii'?><a>\xe9</a>",
    Refused(INVALID, 1, 45),
    Refused(BAD_BYTES, 1, 45),
)
row(
    G,
    "Shift JIS",
    b"<?xml version='1.0' encoding='shift_jis'?><a>\x83\x5c</a>",
    Refused("Unsupported encoding 'shift_jis'", 1, 1),
    Refused("Unsupported encoding 'shift_jis'", 1, 1),
)
row(
    G,
    "UTF-7",
    b"<?xml version='1.0' encoding='utf-7'?><a>+ADw-b+AD4-</a>",
    Refused("Unsupported encoding 'utf-7'", 1, 1),
    Refused("Unsupported encoding 'utf-7'", 1, 1),
)
row(
    G, "EBCDIC", b"<?xml version='1.0' encoding='cp037'?><a/>", Refused("Unknown encoding", 1, 31), Refused(ENDS, 1, 43)
)
row(
    G,
    "unknown encoding",
    b"<?xml version='1.0' encoding='nobody'?><a/>",
    Refused("Unsupported encoding 'nobody'", 1, 1),
    Refused("Unsupported encoding 'nobody'", 1, 1),
)
row(
    G,
    "encoding that decompresses (zlib)",
    b"<?xml version='1.0' encoding='zlib'?><a/>",
    Refused("Unsupported encoding 'zlib'", 1, 1),
    Refused("Unsupported encoding 'zlib'", 1, 1),
)
row(
    G,
    "encoding with a slow decoder (punycode)",
    (b"<?xml version='1.0' encoding='punycode'?><a>", Many(b"a", 100_000), b"</a>"),
    Refused("Unsupported encoding 'punycode'", 1, 1),
    Refused("Unsupported encoding 'punycode'", 1, 1),
)
row(
    G,
    "encoding that can hide tags (unicode_escape)",
    b"<?xml version='1.0' encoding='unicode_escape'?><a>\\x3cb/\\x3e</a>",
    Refused("Unsupported encoding 'unicode_escape'", 1, 1),
    Refused("Unsupported encoding 'unicode_escape'", 1, 1),
)
row(G, "UTF-8, overlong", b"<a>\xc0\xbcb/\xc0\xbe</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "UTF-8 with surrogates", b"<a>\xed\xa0\xbd\xed\xb8\x80</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "UTF-8 beyond the last character", b"<a>\xf4\x90\x80\x80</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "UTF-8 of five bytes", b"<a>\xf8\x88\x80\x80\x80</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "UTF-8 continuation byte without a lead byte", b"<a>\x80</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "UTF-8, cut in the middle of a character", b"<a>\xe2\x82</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "bytes that never are UTF-8", b"<a>\xff</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "U+FFFF", b"<a>\xef\xbf\xbf</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "NUL in text", b"<a>x\x00y</a>", Refused(INVALID, 1, 5), TAKEN)
row(G, "NUL in a name", b"<a\x00b/>", Refused(INVALID, 1, 3), Refused(WRONG, 1, 1))
row(G, "NUL behind the root", b"<a/>\x00", Refused(INVALID, 1, 5), TAKEN)
row(G, "control character", b"<a>\x1b[2J</a>", Refused(INVALID, 1, 4), TAKEN)
row(G, "control character in a value", b"<a b='\x01'/>", Refused(INVALID, 1, 7), TAKEN)
row(G, "reference to NUL", b"<a>&#0;</a>", Refused("Reference to invalid character number", 1, 4), TAKEN)
row(G, "reference to a surrogate", b"<a>&#xD800;</a>", Refused("Reference to invalid character number", 1, 4), TAKEN)
row(
    G,
    "reference beyond the last character",
    b"<a>&#x110000;</a>",
    Refused("Reference to invalid character number", 1, 4),
    TAKEN,
)
row(
    G,
    "two XML declarations",
    b"<?xml version='1.0'?><?xml version='1.0'?><a/>",
    Refused("XML or text declaration not at start of entity", 1, 22),
    TAKEN,
)
row(
    G,
    "XML declaration behind a space",
    b" <?xml version='1.0'?><a/>",
    Refused("XML or text declaration not at start of entity", 1, 2),
    TAKEN,
)
row(
    G,
    "XML declaration without a version",
    b"<?xml encoding='utf-8'?><a/>",
    Refused("XML declaration not well-formed", 1, 7),
    Refused("Unsupported XML declaration", 1, 1),
)

# what a document is
G = "Structure"
row(G, "empty document", b"", Refused("No element found", 1, 1), Refused(ENDS, 1, 1))
row(G, "white space alone", b" \n", Refused("No element found", 2, 1), Refused(ENDS, 2, 1))
row(G, "text alone", b"x", Refused("Syntax error", 1, 1), Refused(ENDS, 1, 2))
row(G, "truncated, an element is open", b"<a>\n<b></b>", Refused("No element found", 2, 8), Refused(ENDS, 2, 8))
row(G, "truncated in a tag", b"<a b='1", Refused("Unclosed token", 1, 1), Refused(ENDS, 1, 8))
row(G, "truncated in an end tag", b"<a></a", Refused("Unclosed token", 1, 4), Refused(ENDS, 1, 7))
row(G, "truncated in a comment", b"<a><!-- x", Refused("Unclosed token", 1, 4), Refused(ENDS, 1, 10))
row(G, "truncated in CDATA", b"<a><![CDATA[ x", Refused("Unclosed CDATA section", 1, 15), Refused(ENDS, 1, 15))
row(G, "truncated in a processing instruction", b"<a><?p x", Refused("Unclosed token", 1, 4), Refused(ENDS, 1, 9))
row(G, "truncated in a reference", b"<a>&am", Refused("Unclosed token", 1, 4), Refused(ENDS, 1, 7))
row(G, "two roots", b"<a/><b/>", Refused("Junk after document element", 1, 5), Refused(WRONG, 1, 5))
row(G, "text before the root", b"x<a/>", Refused(INVALID, 1, 2), TAKEN)
row(G, "text behind the root", b"<a/>x", Refused("Junk after document element", 1, 5), TAKEN)
row(
    G, "CDATA behind the root", b"<a/><![CDATA[x]]>", Refused("Junk after document element", 1, 5), Refused(WRONG, 1, 5)
)
row(G, "carriage return behind the root", b"<a/>\r", Read(1), Read(1))
row(G, "end tag of another element", b"<a>\n<b></c></a>", Refused("Mismatched tag", 2, 6), TAKEN)
row(G, "end tag without an element", b"</a>", Refused(INVALID, 1, 2), Refused(WRONG, 1, 1))
row(G, "elements that overlap", b"<a><b></a></b>", Refused("Mismatched tag", 1, 9), TAKEN)
row(G, "the same attribute twice", b"<a b='1' b='2'/>", Refused("Duplicate attribute", 1, 10), Refused(WRONG, 1, 1))
row(
    G,
    "the same attribute twice, under two prefixes",
    b"<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>",
    Refused("Duplicate attribute", 1, 1),
    Refused(WRONG, 1, 1),
)
row(G, "prefix of an element, not declared", b"<p:a/>", Refused("Unbound prefix", 1, 1), Refused(WRONG, 1, 1))
row(G, "prefix of an attribute, not declared", b"<a p:b='1'/>", Refused("Unbound prefix", 1, 1), Refused(WRONG, 1, 1))
row(
    G,
    "prefix that is no longer declared",
    b"<a><b xmlns:p='u'/><p:c/></a>",
    Refused("Unbound prefix", 1, 20),
    Refused(WRONG, 1, 20),
)
row(
    G,
    "prefix bound to an empty namespace",
    b"<a xmlns:p=''/>",
    Refused("Must not undeclare prefix", 1, 1),
    Refused(WRONG, 1, 1),
)
row(
    G,
    "prefix xmlns, declared",
    b"<a xmlns:xmlns='u'/>",
    Refused("Reserved prefix (xmlns) must not be declared or undeclared", 1, 1),
    Refused(WRONG, 1, 1),
)
row(
    G,
    "prefix xml for something else",
    b"<a xmlns:xml='u'/>",
    Refused("Reserved prefix (xml) must not be undeclared or bound to another namespace name", 1, 1),
    Refused(WRONG, 1, 1),
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
row(G, "two colons in a name", b"<p:a:b xmlns:p='u'/>", Refused(INVALID, 1, 5), Refused(WRONG, 1, 1))
row(
    G,
    "namespace that looks like a prefixed name",
    b"<a xmlns='p:b'><p:b/></a>",
    Refused("Unbound prefix", 1, 16),
    Refused(WRONG, 1, 16),
)
row(G, "namespace with references", b"<a xmlns='u?v=1&amp;w=2'/>", Read(1), Read(1))
row(G, "less-than sign in a value", b"<a b='<'/>", Refused(INVALID, 1, 7), TAKEN)
row(G, "value without quotes", b"<a b=1/>", Refused(INVALID, 1, 6), Refused(WRONG, 1, 1))
row(G, "]]> in text", b"<a>]]></a>", Refused(INVALID, 1, 6), TAKEN)
row(G, "-- in a comment", b"<a><!-- -- --></a>", Refused(INVALID, 1, 11), TAKEN)
row(G, "processing instruction named xml", b"<a><?XmL x?></a>", Refused(INVALID, 1, 9), TAKEN)
row(G, "reference without a semicolon", b"<a>&amp</a>", Refused(INVALID, 1, 8), Refused(ENDS, 1, 12))
