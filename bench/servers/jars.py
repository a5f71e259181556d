"""Jars from Maven, cached per user by the hash of the pom that names them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from bench.java import run_maven

TIMEOUT_S = 250
"""Time limit of Maven in seconds."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perseid"
HERE = Path(__file__).parent


def jars_of(pom: Path, *, transitive: bool = False) -> list[Path]:
    """Jars that Maven copies for a pom; raises :class:`bench.harness.MissingToolError` on failure."""
    cached = CACHE / f"jars-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not cached.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            copied = Path(folder) / "jars"
            deep = ("-DincludeScope=runtime",) if transitive else ("-DexcludeTransitive",)
            goals = ("dependency:copy-dependencies", *deep, f"-DoutputDirectory={copied}")
            run_maven(pom.parent, goals, seconds=TIMEOUT_S, how="On Debian: apt-get install maven")
            copied.rename(cached)
    return sorted(cached.glob("*.jar"))


def connectors() -> list[Path]:
    """Spark's connectors to Kafka, Avro and Delta."""
    return jars_of(HERE / "pom.xml")


SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Session settings that enable Delta."""
