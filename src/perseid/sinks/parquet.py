"""Write matches as Parquet files: one folder per job and batch, renamed into place as a whole."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, urlsplit

from pyarrow import fs
from pydantic import Field, field_validator

from perseid.errors import SettingsError
from perseid.sinks.contract import Batch, PlannedBatches, Sink
from perseid.sinks.failures import failing
from perseid.sinks.rows import require_unreserved, storable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ASIDE = "_perseid"
"""The folder of batches that are not in place; readers skip names with this prefix."""
RESTORED = "_perseid_restored"
"""The folder of batches that a restored checkpoint does not have; readers skip it, too."""
RECORD = "_perseid.json"
"""The file in the folder of a batch that has the digest of its offsets."""
RENAMING = ("hdfs", "viewfs")
"""File systems, in addition to the local one, that rename a folder atomically."""


class Parquet(Sink):
    """A folder of Parquet files, which ``spark.read.parquet`` reads with the columns ``job`` and ``batch``.

    A batch is written to a staging folder and renamed to ``job=…/batch=…``. On a retry, the existing folder is moved
    away first and removed once the new one is in place; the next start repairs the leftovers of a crash.
    """

    guarantee: ClassVar[str] = (
        "Exactly once on a file system that renames folders atomically (local, HDFS): a batch is visible completely or "
        "not at all, and a retried batch replaces itself."
    )

    path: str
    """The folder: a local path, or one that every machine of the cluster mounts, or ``hdfs://…``."""
    files: int | None = Field(default=None, ge=1)
    """Maximum number of files per batch; by default as many as the batch has partitions."""

    @field_validator("path")
    @classmethod
    def _check_file_system(cls, path: str) -> str:
        scheme = urlsplit(path).scheme if "://" in path or path.startswith("file:") else ""
        if scheme not in ("", "file", *RENAMING):
            raise ValueError(
                f"unsupported file system {scheme!r}: it cannot rename folders atomically, so a reader could get a "
                "partial batch; use the sink delta, a local path or hdfs://"
            )
        if scheme and "%" in path:
            raise ValueError("unsupported '%' in an address: programs decode it differently; use a path without '%'")
        if not path.strip():
            raise ValueError("the path is empty")
        return path

    def describe(self) -> str:
        return f"parquet {self.path}"

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        """Repair leftovers of a crash of this job: move folders without a successor back, and remove the rest."""
        require_unreserved(schema, ("job", "batch"), "the folders of a batch are read as columns with this name")
        with failing(self.describe(), None):
            _Folder(self.path).restore(quote(job, safe=""))

    def resume(self, session: SparkSession, job: str, planned: PlannedBatches) -> str | None:
        with failing(self.describe(), None):
            folder, name = _Folder(self.path), quote(job, safe="")
            first = planned.first_replaced(folder.commits(name, planned.oldest))
            if first is None:
                return None
            aside = folder.set_aside(name, first)
        return f"batches from {first} on were moved to {aside}; their matches are detected and written again"

    def write(self, batch: Batch) -> None:
        with failing(self.describe(), batch):
            folder = _Folder(self.path)
            job, name = quote(batch.job, safe=""), f"batch={batch.number}"
            staged = f"{ASIDE}/{job}/{batch.number}-{quote(batch.attempt, safe='')}"
            place, old = f"job={job}/{name}", f"{ASIDE}/{job}/{batch.number}.old"
            folder.remove(staged)
            empty = batch.rows.isEmpty()
            if not empty:
                rows = storable(batch.rows, intervals=True)
                rows = rows if self.files is None else rows.coalesce(self.files)
                rows.write.mode("overwrite").parquet(folder.address(staged))
                if batch.digest is not None:
                    folder.write(f"{staged}/{RECORD}", json.dumps({"digest": batch.digest}).encode())
            self._put(folder, None if empty else staged, place, old)

    def _put(self, folder: _Folder, staged: str | None, place: str, old: str) -> None:
        """Replace the old folder, if there is one, by the new one; readers never find both, or half of one."""
        if folder.has(place):
            folder.remove(old)
            folder.move(place, old)
        if staged is not None:
            folder.move(staged, place)
        folder.remove(old)


class _Folder:
    """A folder, with its address for Spark and the operations on its files."""

    def __init__(self, path: str) -> None:
        parts = urlsplit(path)
        if "://" in path and parts.scheme in RENAMING:
            self._files, self._root = fs.FileSystem.from_uri(path)
            self._prefix = f"{parts.scheme}://{parts.netloc}"
        else:
            # Without a scheme Spark would use the cluster's default file system instead of the local one.
            local = path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")
            self._files, self._root = fs.LocalFileSystem(), os.path.abspath(local)
            self._prefix = "file://"
        self._root = self._root.rstrip("/")
        if not self._root:
            raise SettingsError(
                f"Unsupported path {path!r}: the sink needs a folder below the root of the file system."
            )

    def address(self, name: str) -> str:
        """The address for Spark."""
        return f"{self._prefix}{self._root}/{name}"

    def has(self, name: str) -> bool:
        return bool(self._files.get_file_info(f"{self._root}/{name}").type != fs.FileType.NotFound)

    def names(self, name: str) -> list[str]:
        inside = fs.FileSelector(f"{self._root}/{name}", allow_not_found=True)
        return sorted(found.base_name for found in self._files.get_file_info(inside))

    def move(self, source: str, target: str) -> None:
        self._files.create_dir(f"{self._root}/{target}".rsplit("/", 1)[0], recursive=True)
        self._files.move(f"{self._root}/{source}", f"{self._root}/{target}")

    def remove(self, name: str) -> None:
        if self.has(name):
            self._files.delete_dir(f"{self._root}/{name}")

    def write(self, name: str, body: bytes) -> None:
        with self._files.open_output_stream(f"{self._root}/{name}") as file:
            file.write(body)

    def read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def _batches(self, job: str, since: int) -> list[int]:
        found = (name.removeprefix("batch=") for name in self.names(f"job={job}") if name.startswith("batch="))
        return sorted(int(number) for number in found if number.isdecimal() and int(number) >= since)

    def commits(self, job: str, since: int) -> dict[int, str | None]:
        """The batches of a job from ``since`` on, with the digests of their offsets; None without a readable record."""
        found: dict[int, str | None] = {}
        for number in self._batches(job, since):
            body = self.read(f"job={job}/batch={number}/{RECORD}")
            try:
                found[number] = None if body is None else str(json.loads(body)["digest"])
            except (ValueError, KeyError, TypeError):
                found[number] = None
        return found

    def set_aside(self, job: str, first: int) -> str:
        """Move the batches of a job from ``first`` on out of readers' reach, and return the folder that they are in."""
        aside = f"{RESTORED}/job={job}"
        place = f"{aside}/{len(self.names(aside))}"
        # The last first: until all are moved, the first remaining one shows that the checkpoint does not have it.
        for number in reversed(self._batches(job, first)):
            self.move(f"job={job}/batch={number}", f"{place}/batch={number}")
        return self.address(place)

    def restore(self, job: str) -> None:
        for name in self.names(f"{ASIDE}/{job}"):
            number, _, suffix = name.partition(".")
            place = f"job={job}/batch={number}"
            if suffix == "old" and not self.has(place):
                self.move(f"{ASIDE}/{job}/{name}", place)
        self.remove(f"{ASIDE}/{job}")
