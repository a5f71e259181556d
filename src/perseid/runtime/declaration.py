"""The base of declared streams: their kind, and the type of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # it has defaults, which Python has from 3.13 on

    Result_co = TypeVar("Result_co", covariant=True)
    Data_co = TypeVar("Data_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Result_co = TypeVar("Result_co", covariant=True)
    """Type of the results of a pattern set over local rows."""
    Data_co = TypeVar("Data_co", covariant=True)
    """Type of the rows: a Spark DataFrame, several by event type, or local rows. Any: where it is not declared."""


class StreamDeclaration(Generic[Result_co, Data_co]):
    """A declared stream: rows of one kind, and the roles of their columns."""

    __slots__ = ()
    stream_kind: ClassVar[str]
    """The name of the kind in the registry of kinds."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: object) -> object:
            """Apply the default of the last parameter, which Python has from 3.13 on: ``StreamDeclaration[Matches]``."""
            alone = cls is StreamDeclaration and not isinstance(parameters, tuple)
            return super().__class_getitem__((parameters, object) if alone else parameters)
