"""Compile kernels with Numba and a cache on disk, or run the same source as plain Python.

``PERSEID_CACHE`` names the cache folder; the default is a temporary folder by user and version. If no folder is
writable, functions are compiled for the process alone. With ``PERSEID_NUMBA=0``, or without Numba, the source runs as
plain Python.

Numba looks up a compiled function by the path of its source. Spark gives that path a new name in every application if
the package comes as a zip or an archive, and inside a zip there is no such file. Therefore ``co_filename`` of a kernel
is a copy of its source in the cache folder, and all processes with the same source share the compiled code.
"""

from __future__ import annotations

import getpass
import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perseid._version import __version__

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from types import ModuleType

    from numba.core.types import Type

F = TypeVar("F", bound=Callable[..., object])


def cache_place() -> Path:
    """Return the folder of the cache; raise OSError if there is no temporary folder either."""
    chosen = os.environ.get("PERSEID_CACHE")
    if chosen:
        return Path(chosen)
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"perseid-{user}"


def cache_folder() -> Path | None:
    """Return the folder of this version and source inside the cache, or None if it is not writable."""
    try:
        above = cache_place()
        folder = above / f"{__version__}-{_source_hash()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and {above.stat().st_uid, folder.stat().st_uid} != {os.getuid()}:
            return None  # Somebody else's folder: what lies there would be run.
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@cache
def _source_hash() -> str:
    """Hash the source of all kernels: different kernels of one version must not share a cache."""
    digest = hashlib.blake2b(digest_size=6)
    for package in ("perseid.engines", "perseid.runtime"):
        for path, source in sorted(_sources(resources.files(package), "")):
            digest.update(path.encode() + source)
    return digest.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and source of every module below, also inside a zip."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry.read_bytes()


def _numba() -> ModuleType | None:
    if os.environ.get("PERSEID_NUMBA", "1") == "0":
        return None
    try:
        import numba
    except ImportError:
        return None
    return numba


numba = _numba()
COMPILED: bool = numba is not None
_FOLDER = cache_folder() if COMPILED else None


def _kept(function: Callable[..., object]) -> bool:
    """Copy the source of a function to the cache folder, so that Numba can cache it; return whether it can."""
    if _FOLDER is None or not function.__module__.startswith("perseid."):
        return False
    copy = _FOLDER.joinpath(*function.__module__.split(".")).with_suffix(".py")
    try:
        if not copy.exists():
            _write(copy, inspect.getsource(sys.modules[function.__module__]))
    except OSError:
        return False
    function.__code__ = function.__code__.replace(co_filename=str(copy))
    return True


def _write(path: Path, text: str) -> None:
    """Write a file atomically, with a fixed modification time: processes race here, and older Numba compares the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(draft, (0, 0))
    os.replace(draft, path)


def jit(function: F) -> F:
    """Compile a function on its first call; without Numba, return it unchanged."""
    if numba is None:
        return function
    compiled: F = numba.njit(cache=_kept(function), nogil=True, error_model="numpy")(function)
    return compiled


def typed(types: Mapping[str, Type], *, entry: bool) -> Callable[[F], F]:
    """Compile a function on import, for the signature that its annotations name; ``types`` maps names to Numba types.

    Without a signature, a kernel would be compiled again for every mix of constants and variables in its calls. A
    kernel that is no ``entry`` is called by other kernels only and gets no wrapper for Python.
    """

    def compile_one(function: F) -> F:
        if numba is None:
            return function
        words = dict(function.__annotations__)
        returns = types[words.pop("return")]
        signature = returns(*(types[word] for word in words.values()))
        compiled: F = numba.njit(
            signature,
            cache=_kept(function),
            nogil=True,
            error_model="numpy",
            no_cpython_wrapper=not entry,
            no_cfunc_wrapper=True,
            _nrt=False,
        )(function)
        return compiled

    return compile_one


def words(
    kinds: Callable[[ModuleType], dict[str, Any]], **records: type[tuple[object, ...]]
) -> tuple[dict[str, Type], dict[str, Type]]:
    """Return the Numba types of the names in annotations: for functions that Python calls, and for the others.

    ``kinds`` maps names to Numba's array types; ``records`` are named tuples of arrays, by name. Kernels pass addresses
    to each other (see :mod:`perseid.runtime.pointers`).
    """
    if numba is None:
        return {}, {}
    from perseid.runtime.pointers import Grid, Row, memory_of

    plain = {"int": numba.int64, "float": numba.float64, "bool": numba.boolean, "None": numba.void}
    given = kinds(numba)
    inside: dict[str, Type] = {word: (Row if kind.ndim == 1 else Grid)(kind.dtype) for word, kind in given.items()}
    for word, record in records.items():
        fields = [given[field.__forward_arg__] for field in record.__annotations__.values()]
        made = numba.types.NamedTuple(fields, record)
        given[word], inside[word] = made, memory_of(made)
    return {**plain, **given}, {**plain, **inside}
