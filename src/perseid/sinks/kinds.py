"""The sinks that a job may name."""

from __future__ import annotations

from perseid.sinks.console import Console
from perseid.sinks.contract import Sink
from perseid.sinks.delta import Delta
from perseid.sinks.kafka import Kafka
from perseid.sinks.parquet import Parquet
from perseid.sinks.postgres import Postgres
from perseid.sinks.webhook import Webhook

SINKS: dict[str, type[Sink]] = {
    "console": Console,
    "parquet": Parquet,
    "delta": Delta,
    "kafka": Kafka,
    "postgres": Postgres,
    "webhook": Webhook,
}
"""Sinks by their key in a job file: ``postgres: {…}``."""
