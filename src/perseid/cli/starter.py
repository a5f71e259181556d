"""``perseid new``: create a project that runs, as a starting point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perseid.cli.common import misuse

JOB = """\
# yaml-language-server: $schema=job.schema.json
job: takeover
stream:
  kind: events
  source:
    files:
      path: events
      format: json
      schema: "ts timestamp, type string, user string, ip string, amount double"
  lateness: 10 minutes      # later records are rejected as late
patterns: rules/
bind:
  threshold: 1000
sinks:
  - console
  - parquet: {path: out/matches}
dead_letters: {parquet: {path: out/dead}}
trigger: available_now      # or an interval: 5 seconds
checkpoint: state/takeover
limits:
  bad: {share: 0.05}        # stop if a larger share of records is malformed
spark:
  spark.sql.shuffle.partitions: "2"
"""
RULES = """\
-- A user logs in from two IP addresses within ten minutes, and then transfers money.
pattern takeover(threshold double = 1000)
match   Login a -> Login b [ip <> a.ip] -> not Logout -> Transfer t [amount > :threshold]
within  10 minutes
partition by user
return  a.ip as from_ip, b.ip as to_ip, t.amount as amount
"""
EVENTS = """\
{"ts": "2026-01-01T10:00:00Z", "type": "Login", "user": "ann", "ip": "10.0.0.1"}
{"ts": "2026-01-01T10:01:00Z", "type": "Login", "user": "bob", "ip": "10.0.0.2"}
{"ts": "2026-01-01T10:02:00Z", "type": "Login", "user": "ann", "ip": "203.0.113.9"}
{"ts": "2026-01-01T10:03:00Z", "type": "Transfer", "user": "ann", "amount": 5000.0}
{"ts": "2026-01-01T10:04:00Z", "type": "Transfer", "user": "bob", "amount": 9000.0}
{"ts": "2026-01-01T11:00:00Z", "type": "Login", "user": "cat", "ip": "10.0.0.3"}
"""
CASES = """\
== another address, then a transfer
of takeover
events
  a1 Login 0 user=ann ip=x; a2 Login 60 user=ann ip=y; t1 Transfer 90 user=ann amount=5000
gives
  a=a1 b=a2 t=t1 end=90
why both logins are within the window

== the same address
of takeover
events
  a1 Login 0 user=ann ip=x; a2 Login 60 user=ann ip=x; t1 Transfer 90 user=ann amount=5000
gives
  none
why both logins have the same address

== logged out in between
of takeover
events
  a1 Login 0 user=ann ip=x; a2 Login 60 user=ann ip=y; o1 Logout 70 user=ann; t1 Transfer 90 user=ann amount=5000
gives
  none
why the second session is over

== a small amount
of takeover
events
  a1 Login 0 user=ann ip=x; a2 Login 60 user=ann ip=y; t1 Transfer 90 user=ann amount=5
gives
  none
why the amount is not above the threshold
"""
README = """\
# takeover

Four commands:

    perseid check job.yaml                      # check the job and its rules
    perseid test job.yaml                       # run the cases in tests/, and report coverage
    perseid try job.yaml events/sample.jsonl    # match the sample events, without a cluster
    perseid run job.yaml                        # run the job on Spark: matches on the console and in out/matches

`job.yaml` declares the sources, rules and sinks; `rules/` has the patterns, `tests/` their cases, and `events/` is the folder
that the job reads. A stream emits a match when the watermark has passed it. Therefore the last event of the sample is an hour
later than the others. `perseid schema > job.schema.json` writes the JSON Schema of job files, for editors.
"""
FILES = {
    "job.yaml": JOB,
    "rules/takeover.perseid": RULES,
    "events/sample.jsonl": EVENTS,
    "tests/takeover.cases": CASES,
    "README.md": README,
    ".gitignore": "out/\nstate/\n",
}


def new_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to create; it must be new or empty.")],
) -> None:
    """Create a project that runs: a job, a rule with cases, sample events.

    Example: perseid new fraud
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise misuse(f"{folder} already exists and is not an empty folder. Use another folder.")
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise misuse(f"Cannot write {folder}: {error.strerror}.") from None
    typer.echo(f"Created in {folder}: {', '.join(FILES)}")
    typer.echo(f"Next: cd {folder} && perseid check job.yaml")
