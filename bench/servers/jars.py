"""Jars by Maven, once, into the user's cache: by the text of the pom that names them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from bench.java import run_maven

PATIENCE = 250
"""Seconds that Maven has."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perseid"
HERE = Path(__file__).parent


def jars_of(pom: Path, *, transitive: bool = False) -> list[Path]:
    """What Maven copies for a pom; raises :class:`bench.harness.MissingToolError` where it cannot."""
    kept = CACHE / f"jars-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            copied = Path(folder) / "jars"
            deep = ("-DincludeScope=runtime",) if transitive else ("-DexcludeTransitive",)
            goals = ("dependency:copy-dependencies", *deep, f"-DoutputDirectory={copied}")
            run_maven(pom.parent, goals, seconds=PATIENCE, how="On Debian: apt-get install maven")
            copied.rename(kept)
    return sorted(kept.glob("*.jar"))


def connectors() -> list[Path]:
    """Spark's connectors to Kafka, Avro and Delta."""
    return jars_of(HERE / "pom.xml")


SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""What a session has to be told so that it knows Delta."""
