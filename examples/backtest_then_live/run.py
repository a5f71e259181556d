"""Backtest equals production: rules that run over history have the same matches, by id, as the job that runs them live.

Run it in an environment with Perseid, its extra for jobs, pyspark, confluent-kafka, Java and Maven:

    python examples/backtest_then_live/run.py

Without --broker, it starts a Kafka broker of its own. With --source files, it needs no broker. README.md explains it.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from generate import FIRST_DAY, NEAR_MISS, SCHEMA, Event, arrivals, generate_days, to_table, write_day
from live import FileSource, KafkaSource, LiveSource, MatchKey, parquet_matches
from processes import DemonstrationError, Job, PerseidProcess

import perseid as ps

HERE = Path(__file__).parent
CHANGED = "new_payee"
"""The rule that changes while the job runs."""
BEFORE, AFTER = "amount > 3000", "amount > 1500"
LATENESS, DELAY = timedelta(hours=1), timedelta(minutes=20)
"""Delay of the watermark, and how late an event arrives at most."""
CHUNK = timedelta(minutes=30)
"""Events that arrive within this time are sent together. With DELAY, it is less than LATENESS: no event is late."""


class Demonstration:
    """The steps, in order, and what they find."""

    def __init__(self, options: argparse.Namespace, work: Path, source: LiveSource, jars: list[Path]) -> None:
        self._options, self._work, self._source, self._jars = options, work, source, jars
        self._begin = time.monotonic()
        self._archive, self._rules = work / "archive", work / "rules"
        self._job = Job(work / "job.yaml", work / "checkpoint", work / "job.log", options.timeout)
        self._newest = FIRST_DAY
        """Newest time of an event that was sent."""
        self._days: list[list[Event]] = []

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._begin:4.0f} s] {text}", flush=True)

    def close(self) -> None:
        self._job.close()

    def run(self) -> bool:
        """Run all steps; True if all ids are equal."""
        self.generate()
        first = self.backtest()
        self.deploy()
        decided_at, newest, old = self.change_rule()
        new = self.kill_and_restart()
        return self.compare(first, decided_at, newest, old, new)

    # 1

    def generate(self) -> None:
        options = self._options
        self._days = generate_days(options.seed, options.users, options.days)
        history = options.days - options.live_days
        self._until = FIRST_DAY + timedelta(days=history)
        for day in range(history):
            write_day(self._archive, day, self._days[day])
        shutil.copytree(HERE / "rules", self._rules)
        self._live = [event for events in self._days[history:] for event in events]
        total = sum(map(len, self._days))
        self.say(
            f"1. {total:,} events of {options.users:,} users and {options.days} days; the first {history} days "
            f"({total - len(self._live):,} events) are the archive, as Parquet by day; {self._rule_count()} rules"
        )
        (self._work / "job.yaml").write_text(yaml.safe_dump(self._job_file(), sort_keys=False))

    def _rule_count(self) -> int:
        return len(list(self._rules.glob("*.perseid")))

    def _job_file(self) -> dict[str, Any]:
        """One file for the backtest and for production."""
        archive = {"path": str(self._archive), "format": "parquet", "schema": SCHEMA}
        return {
            "job": "bank",
            "stream": {
                "source": self._source.source(),
                "history": {"source": {"files": archive}, "until": self._until.isoformat()},
                "lateness": "1 hour",
                "id": ["id"],
                "shards": 4,
            },
            "patterns": "rules/",
            "sinks": [*self._source.sinks(), {"parquet": {"path": "matches"}}],
            "dead_letters": {"parquet": {"path": "dead_letters"}},
            "trigger": "1 second",
            "checkpoint": "checkpoint",
            "metrics": {"log": "batches.jsonl"},
            "spark": {
                **({"spark.jars": ",".join(map(str, self._jars))} if self._jars else {}),
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "1g",
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.local.dir": str(self._work / "local"),
                "spark.sql.warehouse.dir": str(self._work / "warehouse"),
            },
        }

    # 2

    def backtest(self) -> set[MatchKey]:
        found = self._replay("backtest")
        by_rule = Counter(pattern for pattern, _, _ in found)
        self.say(f"2. perseid replay job.yaml --to backtest: {len(found):,} matches in the archive")
        for line in _in_columns([f"{name} {count:,}" for name, count in sorted(by_rule.items())]):
            print(f"         {line}")
        rows = parquet_rows(self._work / "backtest", "account_takeover")
        if rows:
            row = min(rows, key=lambda one: (one["start"], one["match_id"]))
            columns = ("user", "start", "end", "from_ip", "to_ip", "transfers", "total", "match_id")
            print("       a match of account_takeover:")
            print("         " + ", ".join(f"{name} {_shown(row[name])}" for name in columns))
        report = ps.jobs.load_patterns(ps.jobs.read_job(self._work / "job.yaml"))["account_takeover"].why_not(
            ps.events([event for event in self._history() if event["user"] == NEAR_MISS], id="id"),
            key=NEAR_MISS,
            shown=1,
        )
        print(f"       why user {NEAR_MISS} has no match of account_takeover:")
        for line in str(report).splitlines():
            print(f"         {line}" if line else "")
        return set(found)

    def _history(self) -> Iterator[Event]:
        return (event for events in self._days[: -self._options.live_days] for event in events)

    def _replay(self, name: str) -> Counter[MatchKey]:
        """Run ``perseid replay`` over the archive."""
        folder = self._work / name
        command = ["replay", str(self._work / "job.yaml"), "--to", str(folder), "--json"]
        process = PerseidProcess(command, self._work / f"{name}.log")
        try:
            process.wait(self._options.timeout)
        finally:
            process.kill()
        return parquet_matches(folder, "*.parquet")

    # 3

    def deploy(self) -> None:
        self._job.start("--from-history")
        end_row = self._work / "checkpoint" / "perseid" / "history-end" / "end.json"
        self._job.wait_until(end_row.exists, "the job has read the archive")
        read = self._job.status()["totals"]["read"]
        self.say(f"3. perseid run job.yaml --from-history: the job has read {read:,} records of the archive")
        third = self._until + self._options.live_days / 3 * timedelta(days=1)
        self._chunks = self._chunked()
        self._send(third)
        self._wait_until_quiet()
        totals = self._job.status()["totals"]
        self.say(
            f"   live events up to {self._newest:%F %T} are processed: {totals['events']:,} events, {totals['late']} late, "
            f"{sum(self._job.status()['matches_by_pattern'].values()):,} matches"
        )

    def _chunked(self) -> Iterator[tuple[datetime, list[Event]]]:
        """The live events in order of arrival, by the time at which they arrive."""
        arriving = arrivals(self._live, self._options.seed, DELAY)
        for number, chunk in groupby(arriving, key=lambda one: (one[0] - self._until) // CHUNK):
            yield self._until + number * CHUNK, [event for _, event in chunk]

    def _send(self, until: datetime | None, pace: float | None = None) -> None:
        """Send the chunks that begin before a time, or all that are left."""
        pace = self._options.pace if pace is None else pace
        for begin, events in self._chunks:
            self._source.send(events)
            self._newest = max(self._newest, *(event["ts"] for event in events))
            time.sleep(pace * (CHUNK / timedelta(days=1)))
            if until is not None and begin + CHUNK >= until:
                return

    def _wait_until_quiet(self) -> None:
        """Wait until a batch has run with the watermark that the newest event gives."""
        expected = self._newest - LATENESS

        def is_reached() -> bool:
            watermark = (self._job.status().get("last") or {}).get("watermark")
            return watermark is not None and datetime.fromisoformat(watermark) >= expected

        self._job.wait_until(is_reached, "all events are processed")

    # 4

    def change_rule(self) -> tuple[datetime, datetime, str]:
        """Change one rule; return the watermark and the newest event at the change, and the version before it."""
        old = self._job.status()["versions"][CHANGED]
        watermark, newest = self._newest - LATENESS, self._newest
        file = self._rules / f"{CHANGED}.perseid"
        text = file.read_text()
        assert BEFORE in text
        staged = file.with_suffix(".new")
        staged.write_text(text.replace(BEFORE, AFTER))
        staged.replace(file)
        self._job.wait_until(lambda: self._job.status()["versions"][CHANGED] != old, "the changed rule runs")
        new = self._job.status()["versions"][CHANGED]
        self.say(
            f"4. {file.name}: {BEFORE!r} is now {AFTER!r}; the job runs version {new} instead of {old}, without a restart "
            f"of its process\n         newest event before the change {newest:%F %T}, watermark {watermark:%F %T}"
        )
        return watermark, newest, old

    # 5

    def kill_and_restart(self) -> str:
        """Kill the job in a batch, restart it, and send all other events; return the version of the changed rule."""
        self._send(self._until + 2 * self._options.live_days / 3 * timedelta(days=1))
        self._wait_until_quiet()
        new: str = self._job.status()["versions"][CHANGED]
        self.say(f"   live events up to {self._newest:%F %T} are processed with the changed rule")
        self._job.wait_until(self._send_one_and_see_batch, "a batch begins")
        self._job.running.kill()
        begun, written = self._job.newest_batch("offsets"), self._job.newest_batch("commits")
        self.say(f"5. SIGKILL in batch {begun}; the last batch that the checkpoint has as written is {written}")
        self._job.start()
        self._send(None)
        closing: Event = {"id": -1, "ts": self._newest + timedelta(days=30), "type": "Close", "user": "-"}
        self._source.send([closing])  # with its time, all windows before it are closed
        self._newest = closing["ts"]
        self._wait_until_quiet()
        last = self._job.newest_batch("commits")
        late = self._job.status()["totals"]["late"]
        self._job.running.stop()
        self.say(
            f"   perseid run job.yaml continued from the checkpoint to batch {last} with the other events, {late} late"
        )
        return new

    def _send_one_and_see_batch(self) -> bool:
        """Send one chunk; True if the job has begun a batch that is not written yet."""
        self._send(self._newest)
        return self._job.newest_batch("offsets") > self._job.newest_batch("commits")

    # 6

    def compare(self, first: set[MatchKey], decided_at: datetime, newest: datetime, old: str, new: str) -> bool:
        for day in range(self._options.days - self._options.live_days, self._options.days):
            write_day(self._archive, day, self._days[day])  # the archive receives the live days, too
        batch = {key for key in self._replay("batch") if key[0] != CHANGED}
        self.say(
            f"6. perseid replay job.yaml --to batch, over all {self._options.days} days: {len(batch):,} matches of unchanged rules"
        )
        everything = to_table([event for events in self._days for event in events])
        later = to_table([event for events in self._days for event in events if event["ts"] > newest])
        before = ps.pattern((HERE / "rules" / f"{CHANGED}.perseid").read_text())
        after = ps.pattern((self._rules / f"{CHANGED}.perseid").read_text())
        batch |= {
            (CHANGED, old, one.match_id) for one in before.match(ps.events(everything, id="id"), horizon=decided_at)
        }
        batch |= {(CHANGED, new, one.match_id) for one in after.match(ps.events(later, id="id"))}
        parquet, topic = parquet_matches(self._work / "matches"), self._source.found()
        labels = {(CHANGED, old): f"{CHANGED}, {BEFORE}", (CHANGED, new): f"{CHANGED}, {AFTER}"}
        is_equal = _print_table(labels, batch, parquet, topic)
        kept = {key for key in first if key[0] != CHANGED}
        print(
            f"       {len(kept & set(parquet)):,} of the {len(kept):,} ids of step 2 are in production; the live days changed "
            f"the others, whose windows were open at the end of the archive"
        )
        return is_equal


def _print_table(
    labels: dict[tuple[str, str], str],
    batch: set[MatchKey],
    parquet: Counter[MatchKey],
    topic: Counter[MatchKey] | None,
) -> bool:
    sinks = {"Parquet": parquet, **({} if topic is None else {"Kafka": topic})}
    groups = sorted({key[:2] for key in (*batch, *parquet, *(topic or ()))})
    width = max(len(labels.get(group, group[0])) for group in groups)
    print(f"\n{'rule':<{width}} {'batch':>7}" + "".join(f"   {name:>7} missing other twice" for name in sinks))
    is_equal = True
    for group in [*groups, None]:
        expected = {key for key in batch if group in (None, key[:2])}
        line = f"{'all' if group is None else labels.get(group, group[0]):<{width}} {len(expected):>7,}"
        for name, rows in sinks.items():
            found = {key for key in rows if group in (None, key[:2])}
            twice = sum(count - 1 for key, count in rows.items() if group in (None, key[:2]))
            line += f"   {len(found):>7,} {len(expected - found):>7} {len(found - expected):>5} {twice:>5}"
            is_equal &= expected == found and (name != "Parquet" or not twice)
        print(line)
    print("missing: in the batch run alone; other: in the sink alone; twice: further rows with the same id\n")
    return is_equal


def parquet_rows(folder: Path, rule: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    return [
        row
        for path in folder.glob("*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
        if row["pattern"] == rule
    ]


def _shown(value: object) -> str:
    return (
        f"{value:%F %T}" if isinstance(value, datetime) else f"{value:,.2f}" if isinstance(value, float) else str(value)
    )


def _in_columns(texts: list[str], count: int = 4) -> list[str]:
    width = max(map(len, texts), default=0) + 2
    return [
        "".join(text.ljust(width) for text in texts[begin : begin + count]).rstrip()
        for begin in range(0, len(texts), count)
    ]


@contextlib.contextmanager
def live_source(options: argparse.Namespace, work: Path) -> Iterator[tuple[LiveSource, list[Path]]]:
    """Provide the live source, and the jars that Spark needs for it."""
    if options.source == "files":
        yield FileSource(work / "live"), []
        return
    sys.path.insert(0, str(HERE.parents[1]))  # the broker is a tool of the checkout, not of the package
    try:
        from bench.harness import MissingToolError
        from bench.servers.broker import Broker
        from bench.servers.jars import connectors
    except ImportError as error:
        raise DemonstrationError(f"Run this in a checkout with its development packages: {error}") from None
    try:
        with contextlib.ExitStack() as stack:
            jars = connectors() if options.jars is None else [Path(jar) for jar in options.jars.split(",")]
            servers = options.broker
            if servers is None:
                broker = Broker(work / "broker")
                stack.callback(broker.stop)  # also if it is interrupted while it starts
                broker.start()
                servers = broker.servers
            yield KafkaSource(servers), jars
    except MissingToolError as error:
        raise DemonstrationError(
            f"A Kafka broker or Spark's connector to Kafka cannot be had: {error}\n"
            "Give --broker HOST:PORT and --jars, or run with --source files."
        ) from None


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Shows that a job has the matches of its backtest, by id.")
    parser.add_argument("--source", choices=("kafka", "files"), default="kafka", help="live source of the job")
    parser.add_argument("--broker", metavar="HOST:PORT", help="a running Kafka broker; by default, one is started")
    parser.add_argument(
        "--jars", metavar="A.jar,B.jar", help="jars of Spark's connector to Kafka; by default, from Maven"
    )
    parser.add_argument(
        "--work", type=Path, metavar="FOLDER", help="a new folder that remains; by default, a temporary one"
    )
    parser.add_argument("--users", type=int, default=2000, help="number of users, at least 100")
    parser.add_argument("--days", type=int, default=90, help="days of events, with the live ones")
    parser.add_argument("--live-days", type=int, default=6, help="days of events that arrive live, at least 3")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pace", type=float, default=3.0, help="seconds for a live day")
    parser.add_argument("--timeout", type=float, default=300.0, help="time limit of a step, in seconds")
    options = parser.parse_args()
    if options.users < 100 or options.live_days < 3 or options.days <= options.live_days:
        parser.error("expected at least 100 users, 3 live days, and more days than live days")
    return options


def main() -> int:
    options, begin = parse_options(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # what was started is stopped on exit
    with contextlib.ExitStack() as stack:
        try:
            if options.work is None:
                work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perseid-demo-")))
            else:
                work = options.work.resolve()
                work.mkdir(parents=True)
            source, jars = stack.enter_context(live_source(options, work))
            demonstration = Demonstration(options, work, source, jars)
            stack.callback(demonstration.close)
            is_equal = demonstration.run()
        except (DemonstrationError, FileExistsError) as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
    print(f"{'equal' if is_equal else 'NOT EQUAL'}; {time.monotonic() - begin:.0f} s in all")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
