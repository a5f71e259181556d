"""Generator of an auction site as in XMark, of any size.

The shape is XMark's: regions with items, categories and their graph, people, open and closed auctions, with its numbers
for a scale factor and its probabilities for optional elements. The words are random. Documents are the same for a scale
factor and a seed, are generated in pieces, and are never completely in memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.trees.words import in_pieces, random_words

PERSONS, OPEN_AUCTIONS, CLOSED_AUCTIONS, CATEGORIES = 25_500, 12_000, 9_750, 1_000
REGIONS = {
    "africa": 550,
    "asia": 2_000,
    "australia": 2_200,
    "europe": 6_000,
    "namerica": 10_000,
    "samerica": 1_000,
}
_SCHOOLS = ("Graduate School", "High School", "College", "Other")
_MARKUP = ("bold", "keyword", "emph")


def xmark(scale: float, seed: int = 7) -> Iterator[bytes]:
    """Yield the document in pieces."""
    return in_pieces(_Site(scale, random.Random(seed)).parts())


@dataclass
class _Site:
    scale: float
    chance: random.Random
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = random_words(self.chance, 4_000)
        self.items = sum(self.count(size) for size in REGIONS.values())
        self.persons, self.categories = self.count(PERSONS), self.count(CATEGORIES)
        self.open, self.closed = self.count(OPEN_AUCTIONS), self.count(CLOSED_AUCTIONS)

    def count(self, at_one: int) -> int:
        return max(1, int(at_one * self.scale))

    def parts(self) -> Iterator[str]:
        yield '<?xml version="1.0" standalone="yes"?>\n<site>\n<regions>\n'
        number = 0
        for region, size in REGIONS.items():
            yield f"<{region}>\n"
            for _ in range(self.count(size)):
                yield self.item(number)
                number += 1
            yield f"</{region}>\n"
        yield "</regions>\n<categories>\n"
        for i in range(self.categories):
            described = self.description()
            yield f'<category id="category{i}">\n<name>{self.phrase(2)}</name>\n{described}</category>\n'
        yield "</categories>\n<catgraph>\n"
        for _ in range(self.categories):
            yield f'<edge from="{self.category()}" to="{self.category()}"/>\n'
        yield "</catgraph>\n<people>\n"
        for i in range(self.persons):
            yield self.person(i)
        yield "</people>\n<open_auctions>\n"
        for i in range(self.open):
            yield self.open_auction(i)
        yield "</open_auctions>\n<closed_auctions>\n"
        for _ in range(self.closed):
            yield self.closed_auction()
        yield "</closed_auctions>\n</site>\n"

    # small things

    def flip(self, share: float = 0.5) -> bool:
        return self.chance.random() < share

    def some(self, mean: float) -> int:
        return int(self.chance.expovariate(1 / mean) + 0.5)

    def word(self) -> str:
        return self.words[int(self.chance.random() * len(self.words))]

    def phrase(self, mean: float) -> str:
        return " ".join(self.chance.choices(self.words, k=1 + self.some(mean - 1)))

    def date(self) -> str:
        chance = self.chance
        return f"{chance.randint(1, 12):02}/{chance.randint(1, 28):02}/{chance.randint(1998, 2001)}"

    def money(self, mean: float) -> str:
        return f"{self.chance.expovariate(1 / mean):.2f}"

    def category(self) -> str:
        return f"category{int(self.chance.random() * self.categories)}"

    def someone(self) -> str:
        return f"person{int(self.chance.random() * self.persons)}"

    def something(self) -> str:
        return f"item{int(self.chance.random() * self.items)}"

    def name(self) -> str:
        return f"{self.word().title()} {self.word().title()}"

    # texts

    def text(self) -> str:
        return f"<text>\n{self.marked(30, 2)} \n</text>\n"

    def marked(self, mean: float, deeper: int) -> str:
        """Generate words, some of them in markup that may contain markup."""
        out = []
        for _ in range(1 + self.some(mean / 10)):
            out += self.chance.choices(self.words, k=1 + self.some(12.8))
            if deeper and self.flip(0.47):
                tag = self.chance.choice(_MARKUP)
                out.append(f"<{tag}> {self.marked(6, deeper - 1 if self.flip(0.15) else 0)} </{tag}>")
        return " ".join(out)

    def description(self) -> str:
        return f"<description>\n{self.text() if self.flip(0.7) else self.list_of_texts(2)}</description>\n"

    def list_of_texts(self, deeper: int) -> str:
        items = []
        for _ in range(1 + self.some(1.9)):
            nested = deeper and self.flip(0.1)
            items.append(f"<listitem>\n{self.list_of_texts(deeper - 1) if nested else self.text()}</listitem>\n")
        return f"<parlist>\n{''.join(items)}</parlist>\n"

    # large things

    def item(self, number: int) -> str:
        chosen = "".join(f'<incategory category="{self.category()}"/>\n' for _ in range(1 + self.some(2.7)))
        mails = "".join(self.mail() for _ in range(self.some(0.95)))
        featured = ' featured="yes"' if self.flip(0.1) else ""
        return (
            f'<item id="item{number}"{featured}>\n<location>{self.name()}</location>\n'
            f"<quantity>{1 + self.some(0.2)}</quantity>\n<name>{self.phrase(3)}</name>\n"
            f"<payment>{self.phrase(2)}</payment>\n{self.description()}<shipping>{self.phrase(8)}</shipping>\n"
            f"{chosen}<mailbox>\n{mails}</mailbox>\n</item>\n"
        )

    def mail(self) -> str:
        return (
            f"<mail>\n<from>{self.address_line()}</from>\n<to>{self.address_line()}</to>\n"
            f"<date>{self.date()}</date>\n{self.text()}</mail>\n"
        )

    def address_line(self) -> str:
        return f"{self.name()} mailto:{self.word()}@{self.word()}.com"

    def person(self, number: int) -> str:
        out = [
            f'<person id="person{number}">\n<name>{self.name()}</name>\n'
            f"<emailaddress>mailto:{self.word()}@{self.word()}.com</emailaddress>\n"
        ]
        digits = self.chance.randint(10_000_000, 99_999_999)
        if self.flip():
            out.append(f"<phone>+{digits % 97} ({digits % 991}) {digits}</phone>\n")
        if self.flip():
            province = f"<province>{self.word().title()}</province>\n" if self.flip() else ""
            out.append(
                f"<address>\n<street>{digits % 99} {self.word().title()} St</street>\n<city>{self.word().title()}</city>\n"
                f"<country>{self.name()}</country>\n{province}<zipcode>{1 + self.some(20)}</zipcode>\n</address>\n"
            )
        if self.flip():
            out.append(f"<homepage>http://www.{self.word()}.com/~{self.word()}</homepage>\n")
        if self.flip():
            card = " ".join(str(self.chance.randint(1000, 9999)) for _ in range(4))
            out.append(f"<creditcard>{card}</creditcard>\n")
        if self.flip():
            out.append(self.profile())
        if self.flip():
            watched = "".join(
                f'<watch open_auction="open_auction{self.chance.randrange(self.open)}"/>\n' for _ in range(self.some(4))
            )
            out.append(f"<watches>\n{watched}</watches>\n")
        return f"{''.join(out)}</person>\n"

    def profile(self) -> str:
        interests = "".join(f'<interest category="{self.category()}"/>\n' for _ in range(self.some(3)))
        education = f"<education>{self.chance.choice(_SCHOOLS)}</education>\n" if self.flip() else ""
        gender = f"<gender>{'male' if self.flip() else 'female'}</gender>\n" if self.flip() else ""
        age = f"<age>{18 + self.some(12)}</age>\n" if self.flip() else ""
        business = f"<business>{'Yes' if self.flip() else 'No'}</business>\n"
        return f'<profile income="{self.money(45_000)}">\n{interests}{education}{gender}{business}{age}</profile>\n'

    def open_auction(self, number: int) -> str:
        reserve = f"<reserve>{self.money(200)}</reserve>\n" if self.flip() else ""
        privacy = "<privacy>Yes</privacy>\n" if self.flip() else ""
        bidders = "".join(self.bidder() for _ in range(self.some(6)))
        return (
            f'<open_auction id="open_auction{number}">\n<initial>{self.money(100)}</initial>\n{reserve}{bidders}'
            f"<current>{self.money(300)}</current>\n{privacy}{self.sold()}{self.annotation()}"
            f"<quantity>{1 + self.some(0.2)}</quantity>\n<type>{self.kind()}</type>\n"
            f"<interval>\n<start>{self.date()}</start>\n<end>{self.date()}</end>\n</interval>\n</open_auction>\n"
        )

    def closed_auction(self) -> str:
        return (
            f'<closed_auction>\n<seller person="{self.someone()}"/>\n<buyer person="{self.someone()}"/>\n'
            f'<itemref item="{self.something()}"/>\n<price>{self.money(100)}</price>\n<date>{self.date()}</date>\n'
            f"<quantity>{1 + self.some(0.2)}</quantity>\n<type>{self.kind()}</type>\n{self.annotation()}</closed_auction>\n"
        )

    def bidder(self) -> str:
        chance = self.chance
        moment = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
        return (
            f"<bidder>\n<date>{self.date()}</date>\n<time>{moment}</time>\n"
            f'<personref person="{self.someone()}"/>\n<increase>{self.money(15)}</increase>\n</bidder>\n'
        )

    def sold(self) -> str:
        return f'<itemref item="{self.something()}"/>\n<seller person="{self.someone()}"/>\n'

    def annotation(self) -> str:
        return (
            f'<annotation>\n<author person="{self.someone()}"/>\n{self.description()}'
            f"<happiness>{self.chance.randint(1, 10)}</happiness>\n</annotation>\n"
        )

    def kind(self) -> str:
        return "Regular" if self.flip(0.7) else "Featured"
