"""A sink with a secret, independent of the built-in sinks; and the one Spark session of the tests."""

from __future__ import annotations

from typing import ClassVar

import pytest

from perseid.settings import Secret
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.kinds import SINKS
from tests.spark.conftest import spark

__all__ = ["spark"]


class Vault(Sink):
    """Sink that needs a secret, independent of the built-in sinks."""

    guarantee: ClassVar[str] = "At least once."
    table: str
    """Table name."""
    password: Secret
    """Password."""

    def describe(self) -> str:
        return f"the table {self.table}"

    def write(self, batch: Batch) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINKS, "vault", Vault)
