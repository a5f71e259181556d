"""The one way a kernel is compiled: Numba with a cache on disk, or the same source as plain Python.

The cache lies where ``PERSEID_CACHE`` says, else in a temporary folder named by user and version; where nothing can
be written, functions are compiled for the process alone. ``PERSEID_NUMBA=0``, or an environment without Numba,
runs the source as it is.

Numba finds what it kept by the path of a function's source, and Spark gives that path a new name in every application
when the package comes as a zip or an archive; inside a zip there is no such file at all. So kernels are said to come
from a copy of their source in the cache folder, and whoever has the same source shares what was compiled.
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
    """Where compiled kernels would be kept; an OSError where there is no temporary folder either."""
    chosen = os.environ.get("PERSEID_CACHE")
    if chosen:
        return Path(chosen)
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"perseid-{user}"


def cache_folder() -> Path | None:
    """Where compiled kernels are kept; None where no folder can be written."""
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
    """Kernels of one version that differ, as while they are being written, must not share a cache."""
    digest = hashlib.blake2b(digest_size=6)
    for package in ("perseid.engines", "perseid.runtime"):
        for path, source in sorted(_sources(resources.files(package), "")):
            digest.update(path.encode() + source)
    return digest.hexdigest()


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Every module below, wherever it was imported from: a zip has no folders to walk."""
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
    """Make a function one that Numba can keep: its source is a file in the cache folder. False where it cannot be."""
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
    """Whole or not at all, and always the same file: processes race here, and older Numba looks at its time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(draft, (0, 0))
    os.replace(draft, path)


def jit(function: F) -> F:
    """The function compiled on its first call; plain where there is no Numba."""
    if numba is None:
        return function
    compiled: F = numba.njit(cache=_kept(function), nogil=True, error_model="numpy")(function)
    return compiled


def typed(types: Mapping[str, Type], *, entry: bool) -> Callable[[F], F]:
    """Like :func:`jit`, with the one signature that the annotations spell; ``types`` says what the words stand for.

    Without it a kernel would be compiled again for every mix of constants and variables it is called with. What is
    no ``entry`` is called by other kernels only, and is spared the code that Python would call it by.
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
    """What the words in kernels' annotations stand for: for functions that Python calls, and for the rest.

    ``kinds`` gives the words for arrays, of Numba; ``records`` are named tuples of arrays, by the word for them. Between
    themselves kernels hand on addresses (see :mod:`perseid.runtime.pointers`).
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
