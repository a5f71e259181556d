"""Safe plans (section 3.3)."""

from typing import Any


def safely(*a: Any) -> Any:
    raise NotImplementedError
