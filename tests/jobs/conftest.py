"""A sink with a secret, whatever the real ones are like; and the one Spark session of the tests."""

from __future__ import annotations

from typing import ClassVar

import pytest

from perseid.settings import Secret
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.kinds import SINKS
from tests.spark.conftest import spark

__all__ = ["spark"]


class Vault(Sink):
    """A sink that needs a secret, whatever the real ones are like."""

    guarantee: ClassVar[str] = "At least once."
    table: str
    """The table."""
    password: Secret
    """The password."""

    def describe(self) -> str:
        return f"the table {self.table}"

    def write(self, batch: Batch) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINKS, "vault", Vault)
