"""A folder on any file system that Arrow knows: small files, written whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from perseid.settings import SettingsError


class Folder:
    """A folder that need not be there yet; it is made with the first file in it."""

    def __init__(self, where: str) -> None:
        self.where = where
        try:
            self._system, self._path = fs.FileSystem.from_uri(
                where if "://" in where else Path(where).absolute().as_uri()
            )
        except (pa.ArrowInvalid, ValueError) as error:
            raise SettingsError(f"{where} is no folder: {str(error).splitlines()[0]}") from None

    @property
    def local(self) -> Path | None:
        """Where it is on this machine, if it is."""
        return Path(self._path) if isinstance(self._system, fs.LocalFileSystem) else None

    def __truediv__(self, name: str) -> Folder:
        made = Folder.__new__(Folder)
        made.where, made._system, made._path = f"{self.where}/{name}", self._system, f"{self._path}/{name}"
        return made

    def names(self) -> list[str]:
        """What is in it, in order."""
        found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return sorted(one.base_name for one in found)

    def read(self, name: str) -> bytes | None:
        """A file whole; None where there is none."""
        try:
            with self._system.open_input_stream(f"{self._path}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, body: bytes) -> None:
        """A file whole: a reader sees what was there before, or this."""
        self._system.create_dir(self._path, recursive=True)
        staged = f"{self._path}/.{name}.{uuid.uuid4().hex}"
        with self._system.open_output_stream(staged) as file:
            file.write(body)
        self._sync(staged)
        self._system.move(staged, f"{self._path}/{name}")

    def _sync(self, path: str) -> None:
        """On this machine: a file that is there after a crash has what was written."""
        if self.local is not None:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def make(self) -> None:
        """Have it there, though empty."""
        self._system.create_dir(self._path, recursive=True)

    def remove(self, name: str) -> None:
        path = f"{self._path}/{name}"
        info: fs.FileInfo = self._system.get_file_info(path)
        if info.type == fs.FileType.Directory:
            self._system.delete_dir(path)
        elif info.type == fs.FileType.File:
            self._system.delete_file(path)
