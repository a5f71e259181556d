"""Detection of kernel calls that make no progress, for every loop that calls a kernel until it is finished."""

from __future__ import annotations


class ProgressGuard:
    """Compares the position of a loop after each unfinished kernel call with the position after the call before."""

    def __init__(self) -> None:
        self._position: tuple[int, ...] | None = None

    def is_stalled(self, *position: int) -> bool:
        """Return whether the position is unchanged: no input consumed, no output taken, no name resolved, no capacity added.

        The kernel is deterministic, so every further call would end the same way.
        """
        stalled = position == self._position
        self._position = position
        return stalled
