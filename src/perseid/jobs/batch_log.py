"""Log of the rules that each batch runs under, and the lock of a checkpoint, both stored next to Spark's files.

The log records the rules of a batch before any sink receives its rows. If the process dies after that, the batch is
retried with the recorded rules, even if the current rules differ, so that all sinks write the same rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from perseid.errors import SettingsError, StateError
from perseid.jobs.folders import Folder

JOB_FOLDER = "perseid"
"""Folder of a job's own files in the checkpoint."""
VERSIONS = "versions.json"
RETAINED_BATCHES = 200
"""Batches in the log. Spark's offset log retains half as many."""
StoredRules: TypeAlias = dict[str, dict[str, str]]
"""Rules as JSON: texts by name, grouped by kind (patterns, relations, quarantined)."""


class BatchLog:
    """Records which rules each batch of a job runs under."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = Folder(checkpoint)
        self._job_folder = self._checkpoint / JOB_FOLDER
        self._batches, self._rules = self._job_folder / "batches", self._job_folder / "rules"

    def has_history(self) -> bool | None:
        """True if the checkpoint was started with a backfill; None if it was not started."""
        body = self._job_folder.read("job.json")
        return None if body is None else bool(_read(body, "job.json").get("history"))

    def job_id(self, name: str, history: bool = False) -> str:
        """Return the id of the job of this checkpoint; the first call creates it."""
        body = self._job_folder.read("job.json")
        if body is not None:
            return str(_read(body, "job.json")["id"])
        if self.planned() is not None:
            raise StateError(
                f"The checkpoint {self._checkpoint.where} belongs to a query that was not started as a job.",
                hint="Use a new checkpoint.",
            )
        new_id = uuid.uuid4().hex
        self._job_folder.write("job.json", json.dumps({"id": new_id, "name": name, "history": history}).encode())
        return new_id

    def planned(self) -> int | None:
        """Number of the last batch that Spark planned."""
        return max(self._numbers("offsets"), default=None)

    def unfinished(self) -> int | None:
        """Number of the batch that was planned and not committed; Spark starts with it."""
        planned = self.planned()
        return None if planned is None or planned in self._numbers("commits") else planned

    @property
    def oldest(self) -> int:
        """The first batch with offsets in the checkpoint; 0 without any."""
        return min(self._numbers("offsets"), default=0)

    def offsets_digest(self, batch: int) -> str | None:
        """Digest of the source offsets at which a batch begins and ends; None if the checkpoint does not have both.

        Spark writes the offsets file of a batch once, before the batch runs, and reads it when the batch is retried.
        The file includes the planning time, so a batch that is planned again has another digest even if its offsets are
        the same.
        """
        offsets = self._checkpoint / "offsets"
        bodies = [offsets.read(str(number)) for number in (batch - 1, batch) if number >= 0]
        if None in bodies:
            return None
        digest = hashlib.sha256()
        for body in bodies:
            digest.update(hashlib.sha256(body or b"").digest())
        return digest.hexdigest()[:32]

    def first_replaced(self, recorded: Mapping[int, str | None]) -> int | None:
        """The first recorded batch that is not planned, or is planned with other offsets; None if all are the same."""
        planned = self.planned()
        for number in sorted(recorded):
            if planned is None or number > planned:
                return number
            digest = recorded[number]
            if digest is not None and self.offsets_digest(number) not in (None, digest):
                return number
        return None

    def _numbers(self, log: str) -> set[int]:
        return {int(name) for name in (self._checkpoint / log).names() if name.isdecimal()}

    def rules_of(self, batch: int) -> StoredRules | None:
        """Rules that are recorded for a batch; None if no sink has received any of it."""
        body = self._batches.read(f"{batch}.json")
        if body is None:
            return None
        digest = str(_read(body, f"batches/{batch}.json")["rules"])
        stored = self._rules.read(f"{digest}.json")
        if stored is None:
            raise StateError(
                f"The checkpoint no longer has the rules of batch {batch}.",
                hint=f"Restore {JOB_FOLDER}/rules/{digest}.json in {self._checkpoint.where}.",
            )
        return _read(stored, f"rules/{digest}.json")

    def save_rules(self, digest: str, rules: StoredRules) -> None:
        """Write rules under their digest, so that a batch can be retried with them."""
        if self._rules.read(f"{digest}.json") is None:
            self._rules.write(f"{digest}.json", json.dumps(rules, ensure_ascii=False).encode())

    def versions(self) -> dict[str, str] | None:
        """Version of each rule that the last query ran, by name; None if an earlier version of Perseid wrote the log."""
        body = self._job_folder.read(VERSIONS)
        return None if body is None else {str(name): str(one) for name, one in _read(body, VERSIONS).items()}

    def save_versions(self, versions: Mapping[str, str]) -> None:
        """Record the versions of the rules that have written a batch, so that a later query can report changes."""
        self._job_folder.write(VERSIONS, json.dumps(dict(versions), ensure_ascii=False).encode())

    def record(self, batch: int, digest: str) -> None:
        """Record the rules of a batch and remove the records of batches beyond `RETAINED_BATCHES`."""
        self._batches.write(f"{batch}.json", json.dumps({"rules": digest}).encode())
        for name in self._batches.names():
            number = name.removesuffix(".json")
            if number.isdecimal() and int(number) <= batch - RETAINED_BATCHES:
                self._batches.remove(name)

    def remove_record(self, batch: int) -> None:
        """Remove the record of a batch with a failed search, so that it can be retried with other rules."""
        self._batches.remove(f"{batch}.json")


def _read(body: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise StateError(
            f"The checkpoint file {JOB_FOLDER}/{name} is damaged.", hint="Restore it, or use a new checkpoint."
        )
    return found


@dataclass
class CheckpointLock:
    """Lock that admits one job at a time to a checkpoint; the operating system releases it when the process ends.

    Only checkpoints on the local file system are locked, because other file systems have no reliable locks.
    """

    checkpoint: str
    _handle: int | None = None

    def __enter__(self) -> Self:
        local = (Folder(self.checkpoint) / JOB_FOLDER).local
        if local is not None:
            self._lock(local)
        return self

    def _lock(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(handle, 64).decode(errors="replace").strip()
            os.close(handle)
            raise SettingsError(
                f"Another job uses the checkpoint {self.checkpoint}" + (f" (process {holder})." if holder else "."),
                hint="Stop it first, or use another checkpoint.",
            ) from None
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._handle = handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
