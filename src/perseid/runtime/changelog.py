"""Names of the columns of a changelog of matches."""

OP, REVISION = "op", "revision"
NAMED_BY = ("pattern", "kind", "match_id")
"""What makes a match this one: two patterns, or a match and the attempt that timed out, may share an id."""
