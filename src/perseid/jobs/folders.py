"""Small files in a folder on any file system that Arrow supports, written atomically."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from perseid.errors import SettingsError


class Folder:
    """A folder, which is created with its first file."""

    def __init__(self, where: str) -> None:
        self.where = where
        try:
            self._system, self._path = fs.FileSystem.from_uri(
                where if "://" in where else Path(where).absolute().as_uri()
            )
        except (pa.ArrowInvalid, ValueError) as error:
            raise SettingsError(f"Invalid folder {where}: {str(error).splitlines()[0]}") from None

    @property
    def local(self) -> Path | None:
        """Path on the local file system; None for other file systems."""
        return Path(self._path) if isinstance(self._system, fs.LocalFileSystem) else None

    def __truediv__(self, name: str) -> Folder:
        child = Folder.__new__(Folder)
        child.where, child._system, child._path = f"{self.where}/{name}", self._system, f"{self._path}/{name}"
        return child

    def names(self) -> list[str]:
        """Names of its files and folders, sorted."""
        found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return sorted(one.base_name for one in found)

    def read(self, name: str) -> bytes | None:
        """Read a whole file; None if it does not exist."""
        try:
            with self._system.open_input_stream(f"{self._path}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, body: bytes) -> None:
        """Write a whole file atomically: a reader gets the old content or the new one."""
        self._system.create_dir(self._path, recursive=True)
        staged = f"{self._path}/.{name}.{uuid.uuid4().hex}"
        with self._system.open_output_stream(staged) as file:
            file.write(body)
        self._sync(staged)
        self._system.move(staged, f"{self._path}/{name}")

    def _sync(self, path: str) -> None:
        """Flush a local file to disk, so that it is complete after a crash."""
        if self.local is not None:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def make(self) -> None:
        """Create the folder."""
        self._system.create_dir(self._path, recursive=True)

    def remove(self, name: str) -> None:
        path = f"{self._path}/{name}"
        info: fs.FileInfo = self._system.get_file_info(path)
        if info.type == fs.FileType.Directory:
            self._system.delete_dir(path)
        elif info.type == fs.FileType.File:
            self._system.delete_file(path)
