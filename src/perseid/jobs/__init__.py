"""A job: sources, patterns and sinks from one file, run as one streaming query that can be killed at any moment."""
