"""A job: sources, patterns and sinks from one file, run as one streaming query that can be killed at any moment."""

from perseid import settings  # noqa: F401 - the first to say which extra is missing
