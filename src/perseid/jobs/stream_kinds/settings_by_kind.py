"""Settings of the stream of a job file, chosen by ``kind:``."""

from __future__ import annotations

from typing import Annotated

from perseid.api.stream_kinds.registry import STREAM_KINDS, import_class, stream_kind
from perseid.deprecated import RENAMED_KINDS
from perseid.jobs.choices import ByWord
from perseid.jobs.stream_kinds.contract import StreamSettings


def settings_by_kind() -> dict[str, type[StreamSettings]]:
    """Import the settings of all registered kinds that have some, by ``kind:``; the first is the default."""
    paths = {name: stream_kind(name).job_settings for name in STREAM_KINDS}
    return {name: import_class(path) for name, path in paths.items() if path is not None}


AnyStream = Annotated[StreamSettings, ByWord(settings_by_kind, "stream", renamed=RENAMED_KINDS)]
"""Settings of one of these kinds, chosen by ``kind:``."""


def kind_name(stream: StreamSettings) -> str:
    """Return the value of ``kind:`` for the settings of a stream."""
    return next(name for name, kind in settings_by_kind().items() if type(stream) is kind)
