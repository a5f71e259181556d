"""Events of an online bank with a shop: ordinary days of some thousand users, and planted fraud.

The events depend on the seed, the number of users and the number of days alone. They are in order of time, and the id of
an event is its position.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Event = dict[str, Any]

FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)
SCHEMA = (
    "id bigint, ts timestamp, type string, user string, device string, ip string, country string, lat double, "
    "lon double, card string, merchant string, amount double, payee string, order_no string"
)
"""Columns of the archive and of the topic, as job files declare them."""
_ARROW = pa.schema(
    [
        (
            name,
            {"bigint": pa.int64(), "double": pa.float64(), "timestamp": pa.timestamp("us", "UTC")}.get(
                kind, pa.string()
            ),
        )
        for name, kind in (column.split() for column in SCHEMA.split(", "))
    ]
)
_COUNTRIES = {"DE": (52.5, 13.4), "FR": (48.9, 2.4), "PL": (52.2, 21.0), "BR": (-23.5, -46.6), "VN": (10.8, 106.7)}
_HOME = ("DE", "FR", "PL")
_MINUTE = 60.0
_HOUR = 3600.0
_DAY = 86400.0
NEAR_MISS = "u00007"
"""A user with a takeover that is no match, because of a logout."""


class _Bank:
    """Writes events of users; a method that begins with ``_fraud`` plants one incident."""

    def __init__(self, seed: int, users: int, days: int) -> None:
        self.events: list[Event] = []
        self._random = random.Random(seed)  # noqa: S311
        self._users, self._days = users, days
        self._orders = 0
        gaps = range(users - users // 50, users)
        self._gaps = {user: (self._random.uniform(8, 30), self._random.uniform(53, 75)) for user in gaps}
        """First and last day of an absence, for users that do not log in for weeks."""

    def _add(self, second: float, kind: str, who: int, country: str | None = None, **more: Any) -> None:
        country = country or self._home(who)
        lat, lon = _COUNTRIES[country]
        at = {"ip": f"84.{_HOME.index(self._home(who))}.{who // 250}.{who % 250}", "country": country}
        base = {"type": kind, "user": f"u{who:05}", "device": f"d{who:05}", "lat": lat, "lon": lon}
        if "merchant" in more:
            base["card"] = f"c{who:05}"
        ts = FIRST_DAY + timedelta(milliseconds=int(second * 1e3))
        self.events.append({"ts": ts, **at, **base, **more})

    def _home(self, user: int) -> str:
        return _HOME[user % 3]

    def _someone(self) -> int:
        return self._random.randrange(8, self._users - self._users // 50)

    def _amount(self, low: float, high: float) -> float:
        """An amount in cents, small ones more often."""
        return round(math.exp(self._random.uniform(math.log(low), math.log(high))), 2)

    def _shop(self) -> str:
        return f"m{int(200 * self._random.random() ** 2):03}"

    def fill_days(self) -> None:
        for day in range(self._days):
            begin = day * _DAY
            for user in range(self._users):
                gap = self._gaps.get(user)
                if self._random.random() < 0.3 and (gap is None or not gap[0] <= day <= gap[1]):
                    self._session(begin + self._random.triangular(0, _DAY - _HOUR, 0.7 * _DAY), user)
            for name in dir(self):
                if name.startswith("_fraud"):
                    getattr(self, name)(begin + self._random.uniform(0, _DAY - 1))
        for user, (_, back) in self._gaps.items():
            if back < self._days:
                self._add(back * _DAY, "Login", user)
                self._add(back * _DAY + 5 * _MINUTE, "Transfer", user, amount=self._amount(300, 4000), payee="p-family")
        begin, miss = (min(self._days // 2, 60)) * _DAY + 9.2 * _HOUR, int(NEAR_MISS[1:])
        story: list[tuple[int, str, dict[str, Any]]] = [
            (0, "Login", {}),
            (9, "Login", {"country": "BR", "ip": "177.54.144.9"}),
            (12, "Logout", {}),
            (14, "Transfer", {"amount": 7400.0, "payee": "p-x"}),
        ]
        for minute, kind, more in story:
            self._add(begin + minute * _MINUTE, kind, miss, **more)

    def _session(self, at: float, user: int) -> None:
        chance = self._random.random
        if chance() < 0.05:
            self._add(at - 20, "LoginFailed", user)
        self._add(at, "Login", user)
        for number in range(int(3 * chance())):
            self._add(
                at + (2 + 4 * number) * _MINUTE, "Payment", user, merchant=self._shop(), amount=self._amount(8, 120)
            )
        if chance() < 0.08:
            self._add(at + 6 * _MINUTE, "Transfer", user, amount=self._amount(50, 900), payee=f"p{user:05}")
        if chance() < 0.015:
            payee, amount = f"p{user:05}-{int(at)}", self._amount(300, 6000)
            self._add(at + 7 * _MINUTE, "AddPayee", user, payee=payee)
            self._add(
                at + 7 * _MINUTE + self._random.uniform(60, 1.2 * _DAY), "Transfer", user, amount=amount, payee=payee
            )
        if chance() < 0.1:
            self._order(at + 9 * _MINUTE, user)
        if chance() < 0.004:
            self._add(at + 10 * _MINUTE, "Dispute", user, merchant=self._shop(), amount=self._amount(8, 120))
        self._add(at + 15 * _MINUTE, "Logout", user)

    def _order(self, at: float, user: int) -> None:
        chance = self._random.random
        self._orders += 1
        order: dict[str, Any] = {"order_no": f"o{self._orders:06}", "amount": self._amount(20, 300)}
        self._add(at, "Order", user, **order)
        if chance() < 0.02:
            return
        paid = at + self._random.uniform(1 * _MINUTE, 1.5 * _DAY)
        self._add(paid, "OrderPaid", user, **order)
        if chance() < 0.02:
            return
        shipped = paid + self._random.uniform(2 * _HOUR, 2.5 * _DAY)
        self._add(shipped, "Shipment", user, **order)
        if chance() < 0.06:
            sent_back = shipped + self._random.uniform(1, 4) * _DAY
            if chance() < 0.8:
                self._add(sent_back, "Return", user, **order)
            self._add(sent_back + _DAY, "Refund", user, **order)

    def _fraud_takeover(self, at: float) -> None:
        user = self._someone()
        abroad = self._random.choice(("BR", "VN"))
        self._add(at, "Login", user)
        self._add(at + 8 * _MINUTE, "Login", user, abroad, ip="177.54.144.9", device="d-stolen")
        for number in range(self._random.randrange(2, 4)):
            self._add(
                at + (10 + number) * _MINUTE, "Transfer", user, abroad, amount=self._amount(1800, 4500), payee="p-x"
            )
        self._add(at + 30 * _MINUTE, "Logout", user, abroad)

    def _fraud_guess(self, at: float) -> None:
        user = self._someone()
        for number in range(self._random.randrange(4, 9)):
            self._add(at + 20 * number, "LoginFailed", user, ip="45.9.20.4")
        self._add(at + 4 * _MINUTE, "Login", user, ip="45.9.20.4")

    def _fraud_spraying(self, at: float) -> None:
        ip = f"45.9.21.{self._random.randrange(250)}"
        for number in range(self._random.randrange(5, 10)):
            self._add(at + 15 * number, "LoginFailed", self._someone(), ip=ip)

    def _fraud_card_testing(self, at: float) -> None:
        user = self._someone()
        for number in range(self._random.randrange(3, 6)):
            self._add(at + 40 * number, "Payment", user, merchant=f"m{number:03}", amount=self._amount(0.5, 4))
        self._add(at + 6 * _MINUTE, "Payment", user, merchant=self._shop(), amount=self._amount(400, 1500))

    def _fraud_reset(self, at: float) -> None:
        user = self._someone()
        payee = f"p-{int(at)}"
        steps: list[tuple[str, dict[str, Any]]] = [("PasswordReset", {}), ("AddPayee", {"payee": payee})]
        self._random.shuffle(steps)
        for minute, (kind, more) in zip((0, 5), steps, strict=True):
            self._add(at + minute * _MINUTE, kind, user, **more)
        self._add(at + 20 * _MINUTE, "Transfer", user, amount=self._amount(800, 6000), payee=payee)

    def _fraud_mule(self, at: float) -> None:
        user = self._someone()
        total = 0.0
        for number in range(3 + self._random.randrange(3)):
            amount = self._amount(700, 1500)
            total += amount
            self._add(at + number * 25 * _MINUTE, "TransferIn", user, amount=amount, payee=f"s{number}-{int(at)}")
        self._add(at + 3 * _HOUR, "Transfer", user, amount=round(0.93 * total, 2), payee="p-abroad")

    def _fraud_structuring(self, at: float) -> None:
        user = self._someone()
        for number in range(self._random.randrange(3, 6)):
            amount = round(self._random.uniform(9050, 9990), 2)
            self._add(at + number * 7 * _HOUR, "Transfer", user, amount=amount, payee="p-cash")

    def _fraud_admin(self, at: float) -> None:
        number = self._random.randrange(1, 6)
        ip = "10.1.4.7" if self._random.random() < 0.7 else "91.198.3.7"
        self._add(at, "Login", 0, user=self._random.choice((f"adm-{number}", f"svc-{number}", f"admin{number}")), ip=ip)

    def _fraud_anonymizer(self, at: float) -> None:
        user, ip = self._someone(), f"185.220.{self._random.randrange(99, 104)}.{self._random.randrange(250)}"
        self._add(at, "Login", user, ip=ip)
        amount = self._amount(50, 700)
        if self._random.random() < 0.5:
            self._add(at + 9 * _MINUTE, "Payment", user, merchant=self._shop(), amount=amount)
        else:
            self._add(at + 9 * _MINUTE, "Transfer", user, amount=amount, payee="p-y")

    def _fraud_declined(self, at: float) -> None:
        user = self._someone()
        for number in range(3):
            shop = f"m{20 + number * self._random.randrange(2):03}"
            self._add(at + 90 * number, "Declined", user, merchant=shop, amount=200.0)
        self._add(at + 6 * _MINUTE, "Payment", user, merchant="m030", amount=200.0)

    def _fraud_refunds(self, at: float) -> None:
        user, amount = self._someone(), self._amount(20, 80)
        for number in range(3):
            self._add(at + number * 11 * _HOUR, "Refund", user, order_no=f"x{int(at)}", amount=amount)

    def _fraud_disputes(self, at: float) -> None:
        for _ in range(self._random.randrange(2, 5)):
            moment, amount = at + self._random.uniform(0, 4 * _HOUR), self._amount(20, 90)
            self._add(moment, "Dispute", self._someone(), merchant="m-ring", amount=amount)

    def _fraud_device(self, at: float) -> None:
        for number in range(self._random.randrange(2, 5)):
            self._add(at + number * 9 * _MINUTE, "Login", self._someone(), device=f"d-farm-{int(at) % 7}")


def generate_days(seed: int, users: int, days: int) -> list[list[Event]]:
    """Return the events of each day, in order of time."""
    bank = _Bank(seed, users, days)
    bank.fill_days()
    by_day: list[list[Event]] = [[] for _ in range(days)]
    for event in sorted(bank.events, key=lambda one: (one["ts"], one["user"], one["type"])):
        day = (event["ts"] - FIRST_DAY).days
        if 0 <= day < days:  # the last orders end after the last day
            by_day[day].append(event)
    for number, event in enumerate(event for events in by_day for event in events):
        event["id"] = number
    return by_day


def to_table(events: list[Event]) -> pa.Table:
    return pa.Table.from_pylist(events, schema=_ARROW)


def write_day(folder: Path, day: int, events: list[Event]) -> None:
    """Write a day of the archive to its own folder, as ``day=2025-01-31/events.parquet``."""
    there = folder / f"day={FIRST_DAY + timedelta(days=day):%Y-%m-%d}"
    there.mkdir(parents=True)
    pq.write_table(to_table(events), there / "events.parquet")


def arrivals(events: list[Event], seed: int, delay: timedelta) -> Iterator[tuple[datetime, Event]]:
    """Yield the time of arrival and the event, in order of arrival: up to ``delay`` after the event."""
    chance = random.Random(seed)  # noqa: S311
    late = [(event["ts"] + chance.random() * delay, event["id"], event) for event in events]
    for arrival, _, event in sorted(late, key=lambda one: one[:2]):
        yield arrival, event
