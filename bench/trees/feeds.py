"""Generator of polled feeds: many small documents.

The numbers are those of paper 3's experiment: 418 channels, items of five fields, from June to October of 2006. An item
is either one document with five leaves, as in the paper; or part of a document with others of its channel, as in real
feeds, RSS or Atom, with namespaces, CDATA sections and escaped markup. A news item is in several channels, with one
title.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import accumulate
from xml.sax.saxutils import escape

from bench.trees.words import random_words

CHANNELS = 418
ATOM = "http://www.w3.org/2005/Atom"
DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
CONTENT = "http://purl.org/rss/1.0/modules/content/"
_BEGIN, _END = datetime(2006, 6, 1, tzinfo=UTC), datetime(2006, 11, 1, tzinfo=UTC)
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def items(count: int, seed: int = 11) -> Iterator[bytes]:
    """Yield ``count`` documents of one item each, in time order."""
    generator = EntryGenerator(random.Random(seed), count)
    for _ in range(count):
        yield _item(generator.next_of(generator.channel())).encode()


def feeds(count: int, seed: int = 11) -> Iterator[bytes]:
    """Yield ``count`` documents of one to ten items, the newest first; a third of the channels uses Atom, the others
    RSS."""
    generator = EntryGenerator(random.Random(seed), 5.5 * count)
    for _ in range(count):
        channel = generator.channel()
        new = [generator.next_of(channel) for _ in range(generator.chance.randint(1, 10))][::-1]
        yield (_atom(new) if channel % 3 == 0 else _rss(new)).encode()


@dataclass(frozen=True)
class Entry:
    item_url: str
    channel_url: str
    title: str
    timestamp: datetime
    description: str
    author: str


@dataclass
class EntryGenerator:
    """Source of about ``count`` entries."""

    chance: random.Random
    entries: float
    number: int = 0
    news: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = random_words(self.chance, 3_000)
        self.hosts = [f"http://{word}{number}.example.com" for number, word in enumerate(self.words[:CHANNELS])]
        # A few channels write most entries.
        self.shares = list(accumulate(1 / (rank + 1) ** 0.8 for rank in range(CHANNELS)))
        self.now = _BEGIN

    def channel(self) -> int:
        return self.chance.choices(range(CHANNELS), cum_weights=self.shares)[0]

    def next_of(self, channel: int) -> Entry:
        chance, host = self.chance, self.hosts[channel]
        self.number += 1
        self.now += timedelta(seconds=int(chance.expovariate(self.entries / (_END - _BEGIN).total_seconds())))
        return Entry(
            f"{host}/?p={self.number}&ref=feed",
            f"{host}/feed",
            self.title(),
            self.now,
            " ".join(chance.choices(self.words, k=chance.randint(8, 40))).capitalize() + ".",
            chance.choice(self.words).title(),
        )

    def title(self) -> str:
        """A new title, or one of a current news item."""
        if self.news and self.chance.random() < 0.2:
            return self.chance.choice(self.news)
        title = " ".join(self.chance.choices(self.words, k=self.chance.randint(3, 9))).capitalize()
        if self.chance.random() < 0.1:
            title += f" & {self.chance.choice(self.words)}"
        self.news = [*self.news[-49:], title]
        return title


def _item(entry: Entry) -> str:
    return (
        f"<item><item_url>{escape(entry.item_url)}</item_url><channel_url>{entry.channel_url}</channel_url>"
        f"<title>{escape(entry.title)}</title><timestamp>{entry.timestamp:%Y-%m-%dT%H:%M:%SZ}</timestamp>"
        f"<description>{entry.description}</description></item>\n"
    )


def _rss(entries: list[Entry]) -> str:
    url = entries[0].channel_url
    written = "".join(
        f"<item>\n<title>{escape(entry.title)}</title>\n<link>{escape(entry.item_url)}</link>\n"
        f'<guid isPermaLink="false">{escape(entry.item_url)}</guid>\n'
        f"<pubDate>{format_datetime(entry.timestamp, usegmt=True)}</pubDate>\n<dc:creator>{entry.author}</dc:creator>\n"
        f"<description>{entry.description}</description>\n"
        f"<content:encoded><![CDATA[<p>{entry.description}</p>]]></content:encoded>\n</item>\n"
        for entry in entries
    )
    return (
        f'{_HEAD}<rss version="2.0" xmlns:atom="{ATOM}" xmlns:dc="{DUBLIN_CORE}" xmlns:content="{CONTENT}">\n<channel>\n'
        f"<title>{url[7:-5]}</title>\n<link>{url[:-5]}</link>\n"
        f'<atom:link href="{url}" rel="self" type="application/rss+xml"/>\n{written}</channel>\n</rss>\n'
    )


def _atom(entries: list[Entry]) -> str:
    url = entries[0].channel_url
    written = "".join(
        f'<entry>\n<title type="text">{escape(entry.title)}</title>\n<id>{escape(entry.item_url)}</id>\n'
        f'<link rel="alternate" href="{escape(entry.item_url)}"/>\n<updated>{entry.timestamp:%Y-%m-%dT%H:%M:%SZ}</updated>\n'
        f"<author><name>{entry.author}</name></author>\n"
        f'<content type="html">&lt;p&gt;{entry.description}&lt;/p&gt;</content>\n</entry>\n'
        for entry in entries
    )
    return (
        f'{_HEAD}<feed xmlns="{ATOM}">\n<title>{url[7:-5]}</title>\n<id>{url}</id>\n<link rel="self" href="{url}"/>\n'
        f"<updated>{entries[0].timestamp:%Y-%m-%dT%H:%M:%SZ}</updated>\n{written}</feed>\n"
    )
