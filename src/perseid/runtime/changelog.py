"""Names of the columns of a changelog of matches."""

OP, REVISION = "op", "revision"
NAMED_BY = ("pattern", "kind", "match_id")
"""Columns that identify a match: two patterns, or a match and a timed-out partial match, may share an id."""
