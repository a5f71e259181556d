"""Compile kernels with Numba and a cache on disk, or run the same source as plain Python.

``PERSEID_CACHE`` names the cache folder; the default is a temporary folder by user and version. If no folder is
writable, functions are compiled for the process alone. With ``PERSEID_NUMBA=0``, or without Numba, the source runs as
plain Python.

Numba looks up a compiled function by the path of its source. Spark gives that path a new name in every application if
the package comes as a zip or an archive, and inside a zip there is no such file. Therefore ``co_filename`` of a kernel
is a copy of its source in the cache folder, and all processes with the same source share the compiled code. A change of a module compiles the kernels that import it.
"""

from __future__ import annotations

import getpass
import hashlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perseid._version import __version__

if TYPE_CHECKING:
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
    """Return the folder of this version inside the cache, or None if it is not writable."""
    try:
        above = cache_place()
        folder = above / __version__
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and {above.stat().st_uid, folder.stat().st_uid} != {os.getuid()}:
            return None  # Somebody else's folder: what lies there would be run.
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@cache
def source_hash(module: str) -> str:
    """Hash the source of a module and of all modules of Perseid that it imports, directly or not.

    Compiled code contains constants and functions of these modules. Kernels with another source must not share a cache.
    """
    digest = hashlib.blake2b(digest_size=6)
    found, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in found and _source(name) is not None:
            found.add(name)
            waiting += _imports(name)
    for name in sorted(found):
        digest.update(name.encode() + (_source(name) or b""))
    return digest.hexdigest()


@cache
def _imports(module: str) -> frozenset[str]:
    """The names that a module imports from Perseid; some are modules."""
    names = set[str]()
    for package, imported in _IMPORT.findall((_source(module) or b"").decode()):
        names |= {package, *(f"{package}.{name}" for name in re.findall(r"\w+", imported))}
    return frozenset(names)


@cache
def _source(module: str) -> bytes | None:
    """The source of a module, also inside a zip; None for other names."""
    *folders, name = module.split(".")[1:] or ["__init__"]
    place = resources.files("perseid").joinpath(*folders, f"{name}.py")
    return place.read_bytes() if place.is_file() else None


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
_IMPORT = re.compile(r"^[ \t]*from (perseid[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


def _kept(function: Callable[..., object]) -> bool:
    """Copy the source of a function to the cache folder, so that Numba can cache it; return whether it can."""
    if _FOLDER is None or not function.__module__.startswith("perseid."):
        return False
    copy = _FOLDER.joinpath(source_hash(function.__module__), *function.__module__.split(".")).with_suffix(".py")
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


def inlined(function: F) -> F:
    """Mark a part of one kernel: Numba copies it into its callers and compiles it with them, never alone.

    A long kernel is written as parts that can be tested alone in plain Python, and costs no calls between them.
    """
    if numba is None:
        return function
    part: F = numba.njit(inline="always", nogil=True, error_model="numpy")(function)
    return part


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
