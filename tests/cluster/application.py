"""Driver program of these tests: run the doctor, then match. Usage: application.py MASTER SETTINGS.json OUT.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import perseid as ps
from perseid.spark.doctor import examine

USERS = 40
RULE = """
    pattern moved
    match   Login a -> Login b [ip <> a.ip] -> Transfer t [amount > 500]
    within  5 minutes
    partition by user
    return  b.ip as address, t.amount
"""


def rows() -> list[dict[str, Any]]:
    """Return three events per user; the third is needed if the user's number is even."""
    out: list[dict[str, Any]] = []
    for n in range(USERS):
        user, at = f"u{n}", 1_000 * n
        out.append({"ts": at, "type": "Login", "user": user, "ip": "10.0.0.1", "amount": None})
        out.append({"ts": at + 30, "type": "Login", "user": user, "ip": f"10.0.1.{n}", "amount": None})
        out.append({"ts": at + 60, "type": "Transfer", "user": user, "ip": None, "amount": 1_000 if n % 2 == 0 else 10})
    return out


def main(master: str, settings: str, out: str) -> None:
    builder = SparkSession.builder.master(master).appName("perseid-cluster")
    for name, value in json.loads(Path(settings).read_text(encoding="utf-8")).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    report = examine(spark)
    done: dict[str, Any] = {"report": report.to_dict(), "text": str(report)}
    frame = spark.createDataFrame(rows(), "ts bigint, type string, user string, ip string, amount bigint")
    try:
        found = ps.pattern(RULE).match(ps.events(frame.repartition(4))).collect()
        done["matches"] = sorted([row["user"], row["address"], row["amount"]] for row in found)
    except Exception as error:
        done["failure"] = str(error)
    Path(out).write_text(json.dumps(done), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
