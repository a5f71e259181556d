"""The social media case of the Transformation Tool Contest 2018: its data as transactions, and its two queries.

Q1: the three posts with the greatest score, ten for each comment below a post and one for each like of such a comment.
Q2: the three comments with the greatest score, the sum of the squares of the sizes of the groups of friends among those
who like it. Of equal scores the newer one is first.
"""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from io import TextIOWrapper
from pathlib import PurePosixPath

from bench.real_data import DATA
from perseid.lang.parser import parse_models
from perseid.semantics.graphs import Change, Graph
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import Match, Queries, check_queries

ARCHIVE = DATA / "models" / "ttc2018.tar.gz"
SIZES = (1, 2, 4, 8, 16, 32, 64)
CHANGE_SETS = 20
EXPECTED = "expected-results.csv"

METAMODEL = """
model social
node User (name string)
abstract node Submission (at timestamp, content string)
node Post is Submission
node Comment is Submission
edge submitter Submission -> User one
edge parent Comment -> Submission one
edge root Comment -> Post one
edge likes User -> Comment
edge friends User -> User
"""
Q1 = """
query comment_below(post, comment) find comment -root-> post
query like_below(post, comment, user) find comment -root-> post, user -likes-> comment
query q1(post, score)
find post: Post
let comments = count of comment_below(post, _), likes = count of like_below(post, _, _), score = 10 * comments + likes
top 3 by score, post.at
"""
Q2 = """
query fan(comment, user) find user -likes-> comment
query pals(comment, one, other) find fan(comment, one), fan(comment, other), one -friends-> other
query circle(comment, user, first) components of pals over fan
query size(comment, first, users) find circle(comment, first, first) let users = count of circle(comment, _, first)
query q2(comment, score)
find comment: Comment let score = sum(users * users) of size(comment, _, users)
top 3 by score, comment.at
"""
TEXTS = {"Q1": METAMODEL + Q1, "Q2": METAMODEL + Q2, "Q1 and Q2": METAMODEL + Q1 + Q2}


def queries(which: str) -> Queries:
    """The checked queries of ``TEXTS``."""
    file = parse_models(TEXTS[which])
    assert file.metamodel is not None
    return check_queries(kinds_of(file.metamodel), file.queries)


@dataclass
class Case:
    """One size of the case: the initial model, and each change set."""

    initial: list[Change]
    changes: list[list[Change]]
    right: dict[str, list[list[int]]]
    """By query, the three expected ids after the load and after each change set."""


def read(sizes: Iterable[int] = SIZES) -> dict[int, Case]:
    """Read the requested sizes from the archive, without unpacking it to disk."""
    wanted = tuple(sizes)
    tables: dict[PurePosixPath, list[list[str]]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive.getmembers():
            path, file = PurePosixPath(member.name), archive.extractfile(member)
            if file is None or not (path.name == EXPECTED or path.parent.name in map(str, wanted)):
                continue
            expected = path.name == EXPECTED
            text = TextIOWrapper(file, encoding="utf-8", newline="")
            tables[path] = list(
                csv.reader(
                    text, delimiter=";" if expected else "|", quoting=csv.QUOTE_MINIMAL if expected else csv.QUOTE_NONE
                )
            )
    named = {(path.parent.name, path.name): rows for path, rows in tables.items()}
    return {size: _case(size, named) for size in wanted}


def _case(size: int, tables: dict[tuple[str, str], list[list[str]]]) -> Case:
    folder, reader = str(size), RowReader()
    initial = []
    for table in ("users", "posts", "comments", "friends", "likes"):
        for row in tables[folder, f"csv-{table}-initial.csv"]:
            initial += reader.changes(table.capitalize(), row)
    changes = []
    for number in range(1, CHANGE_SETS + 1):
        rows = tables[folder, f"change{number:02}.csv"]
        changes.append([change for table, *row in rows for change in reader.changes(table, row)])
    right: dict[str, list[list[int]]] = {"Q1": [], "Q2": []}
    (expected,) = (rows for (_, name), rows in tables.items() if name == EXPECTED)
    for view, of_size, iteration, _, ids in expected[1:]:
        if of_size == folder:
            assert int(iteration) == len(right[view])
            right[view].append([int(one) for one in ids.split("|")])
    return Case(initial, changes, right)


@dataclass
class RowReader:
    """Converts rows to changes; stores which post a comment is below, because the file names only its parent."""

    roots: dict[int, int] = field(default_factory=dict)

    def changes(self, table: str, row: list[str]) -> Iterator[Change]:
        match table:
            case "Users":
                yield Change("create", int(row[0]), "User")
                yield Change("set", int(row[0]), attribute="name", value=row[1])
            case "Posts":
                self.roots[int(row[0])] = int(row[0])
                yield from self._submission("Post", row)
            case "Comments":
                comment, parent = int(row[0]), int(row[4])
                root = self.roots[comment] = self.roots[parent]
                yield from self._submission("Comment", row)
                yield Change("link", comment, "parent", target=parent)
                yield Change("link", comment, "root", target=root)
            case "Friends" | "Likes":
                yield Change("link", int(row[0]), table.lower(), target=int(row[1]))
            case _:
                raise ValueError(f"no table of the case is called {table!r}")

    def _submission(self, kind: str, row: list[str]) -> Iterator[Change]:
        submission = int(row[0])
        yield Change("create", submission, kind)
        yield Change("set", submission, attribute="at", value=datetime.fromisoformat(row[1]))
        yield Change("set", submission, attribute="content", value=row[2])
        yield Change("link", submission, "submitter", target=int(row[3]))


def first_three(matches: Iterable[Match], graph: Graph) -> list[int]:
    """The first three of the matches (submission, score) in the order of the case."""

    def place(match: Match) -> tuple[int, float, int]:
        submission, score = match
        at = graph.value(submission, "at")
        return -score, -at.timestamp(), submission  # type: ignore[operator, union-attr, return-value]

    return [match[0] for match in sorted(matches, key=place)[:3]]  # type: ignore[misc]
