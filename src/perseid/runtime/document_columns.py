"""Names of the columns that reading documents needs and adds."""

BODY, STREAM = "body", "stream"
"""Input of ``prepare``: documents, or their paths, and the stream of each, if that is declared."""
TYPE, PLACE = "_type", "_place"
"""Columns of an event: the pattern that it is a result of, and its place in the document."""
DOCUMENT, WRONG = "_document", "_wrong"
"""The identity of a document, and the reason why it cannot be read."""
