"""The base of declared streams: their kind, and the type of their results."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

Result_co = TypeVar("Result_co", covariant=True)
"""Type of the results of a pattern set over rows of this process."""


class StreamDeclaration(Generic[Result_co]):
    """A declared stream: rows of one kind, and the roles of their columns."""

    __slots__ = ()
    stream_kind: ClassVar[str]
    """The name of the kind in the registry of kinds."""
