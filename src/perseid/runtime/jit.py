"""Compile kernels with Numba and a cache on disk, or run the same source as plain Python.

``PERSEID_CACHE`` names the cache folder; the default is a temporary folder by user and version. If no folder is
writable, functions are compiled for the process alone. With ``PERSEID_NUMBA=0``, or without Numba, the source runs as
plain Python.

Numba looks up a compiled function by the path of its source. Spark gives that path a new name in every application if
the package comes as a zip or an archive, and inside a zip there is no such file. Therefore ``co_filename`` of a kernel
is a copy of its source in the cache folder, and all processes with the same source share the compiled code. A change of
a module recompiles the kernels that import it.
"""

from __future__ import annotations

import getpass
import hashlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, update_wrapper
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from perseid._version import __version__

if TYPE_CHECKING:
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
            return None  # Another user's folder: its code would be executed.
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
    found, pending = set[str](), [module]
    while pending:
        name = pending.pop()
        if name not in found and _source(name) is not None:
            found.add(name)
            pending += _imports(name)
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


COMPILED: bool = os.environ.get("PERSEID_NUMBA", "1") != "0" and find_spec("numba") is not None
"""True if kernels are compiled; otherwise their source runs as plain Python."""
_FOLDER = cache_folder() if COMPILED else None
_IMPORT = re.compile(r"^[ \t]*from (perseid[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)
_COMPILED_MODULES = set[str]()


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Run kernels as plain Python in this context, for input so small that compilation would take longer."""
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def runs_compiled() -> bool:
    """True if a kernel that is called now runs compiled."""
    return COMPILED and not _PLAIN.get()


def is_any_compiled(prefix: str) -> bool:
    """True if this process has compiled, or loaded, a kernel of a module with this prefix."""
    return any(module.startswith(prefix) for module in tuple(_COMPILED_MODULES))


class Kernel:
    """A function that Numba compiles on its first call; inside :func:`plain_kernels` its source runs as plain Python.

    Numba is imported with the first compilation, not with the module of the kernel.
    """

    def __init__(self, function: Callable[..., object], build: Callable[[], object]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._build = build
        self._compiled: Callable[..., object] | None = None

    def __call__(self, *args: object) -> object:
        return self.py_func(*args) if _PLAIN.get() else (self._compiled or self.compiled())(*args)

    def compiled(self) -> Callable[..., object]:
        """The function of Numba, for kernels that call this one."""
        if self._compiled is None:
            try:
                lock = _compiler_lock()
            except ImportError:  # Numba is installed, but cannot be imported next to the other packages.
                self._compiled = self.py_func
                return self._compiled
            with lock:
                self._compiled = self._compiled or cast("Callable[..., object]", self._build())
                _COMPILED_MODULES.add(self.py_func.__module__)
        return self._compiled

    @property
    def _numba_type_(self) -> object:
        """The type of the compiled function, for kernels that name this one as an attribute of a module."""
        return cast("Any", self.compiled())._numba_type_


def _compiler_lock() -> AbstractContextManager[None]:
    """The lock of Numba's compiler: a second lock around compilations could be taken in the other order."""
    from numba.core.compiler_lock import global_compiler_lock

    return cast("AbstractContextManager[None]", global_compiler_lock)


def build_with(function: F, build: Callable[[], object]) -> F:
    """Return a kernel that ``build`` makes for Numba, with ``function`` as its plain Python."""
    return cast("F", Kernel(function, build)) if COMPILED else function


def _linked(function: Callable[..., object]) -> tuple[FunctionType, bool]:
    """A copy of a function that calls compiled kernels, and whether Numba can cache it.

    The kernels that it calls are compiled first: Numba needs their signatures.
    """
    original = cast("FunctionType", getattr(function, "__wrapped__", function))
    code, cached = _cached_code(original)
    names = dict(original.__globals__)
    for name in _names(code):
        if isinstance(names.get(name), Kernel):
            names[name] = names[name].compiled()
    copy = FunctionType(code, names, original.__name__, original.__defaults__, original.__closure__)
    copy.__qualname__, copy.__doc__ = original.__qualname__, original.__doc__
    copy.__annotations__ = original.__annotations__
    return copy, cached


def _names(code: CodeType) -> set[str]:
    inner = (_names(one) for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*inner)


def _cached_code(function: FunctionType) -> tuple[CodeType, bool]:
    """Copy the source of a function to the cache folder, so that Numba can cache it; return its code and whether it can."""
    if _FOLDER is None or not function.__module__.startswith("perseid."):
        return function.__code__, False
    copy = _FOLDER.joinpath(source_hash(function.__module__), *function.__module__.split(".")).with_suffix(".py")
    try:
        if not copy.exists():
            _write(copy, inspect.getsource(sys.modules[function.__module__]))
    except OSError:
        return function.__code__, False
    return function.__code__.replace(co_filename=str(copy)), True


def _write(path: Path, text: str) -> None:
    """Write a file atomically, with a fixed modification time: processes race, and older Numba compares the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(draft, (0, 0))
    os.replace(draft, path)


def jit(function: F) -> F:
    """Compile a function on its first call, for the types of its arguments; without Numba, return it unchanged."""

    def build() -> object:
        copy, cached = _linked(function)
        return _numba().njit(cache=cached, nogil=True, error_model="numpy")(copy)

    return build_with(function, build)


def jit_with_overflow(function: F) -> F:
    """Compile a function of wrapping arithmetic, as of hashes: as plain Python, NumPy would warn of each overflow."""
    quiet: F = np.errstate(over="ignore")(function)
    return jit(quiet)


def inlined(function: F) -> F:
    """Mark a part of one kernel: Numba copies it into its callers and compiles it with them, never alone.

    A long kernel is written as parts that can be tested alone in plain Python, and costs no calls between them.
    """
    return build_with(
        function, lambda: _numba().njit(inline="always", nogil=True, error_model="numpy")(_linked(function)[0])
    )


def typed(types: Callable[[], Mapping[str, Type]], *, entry: bool) -> Callable[[F], F]:
    """Compile a function on its first call, for the signature that its annotations name; ``types`` maps names to Numba types.

    Without a signature, a kernel would be compiled again for every mix of constants and variables in its calls. A
    kernel that is no ``entry`` is called by other kernels only and gets no wrapper for Python.
    """

    def compile_one(function: F) -> F:
        def build() -> object:
            copy, cached = _linked(function)
            types_by_name, annotations = types(), dict(function.__annotations__)
            returns = types_by_name[annotations.pop("return")]
            return _numba().njit(
                returns(*(types_by_name[word] for word in annotations.values())),
                cache=cached,
                nogil=True,
                error_model="numpy",
                no_cpython_wrapper=not entry,
                no_cfunc_wrapper=True,
                _nrt=False,
            )(copy)

        return build_with(function, build)

    return compile_one


def words(
    kinds: Callable[[ModuleType], dict[str, Any]], **records: type[tuple[object, ...]]
) -> tuple[Callable[[], dict[str, Type]], Callable[[], dict[str, Type]]]:
    """Return the Numba types of the names in annotations: for functions that Python calls, and for the others.

    ``kinds`` maps names to Numba's array types; ``records`` are named tuples of arrays. Kernels pass addresses to each
    other (see :mod:`perseid.runtime.pointers`).
    """

    @cache
    def build() -> tuple[dict[str, Type], dict[str, Type]]:
        from perseid.runtime.pointers import Grid, Row, memory_of

        numba = _numba()
        plain = {"int": numba.int64, "float": numba.float64, "bool": numba.boolean, "None": numba.void}
        array_types = kinds(numba)
        inside: dict[str, Type] = {
            word: (Row if kind.ndim == 1 else Grid)(kind.dtype) for word, kind in array_types.items()
        }
        for word, record in records.items():
            fields = [array_types[field.__forward_arg__] for field in record.__annotations__.values()]
            record_type = numba.types.NamedTuple(fields, record)
            array_types[word], inside[word] = record_type, memory_of(record_type)
        return {**plain, **array_types}, {**plain, **inside}

    return lambda: build()[0], lambda: build()[1]


def _numba() -> ModuleType:
    import numba

    return numba
