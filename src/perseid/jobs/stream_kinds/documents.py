"""``kind: documents``: XML or JSON in a column, files by their paths, or rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from perseid.api.streams import documents
from perseid.engines.trees.stream import Documents
from perseid.jobs.stream_kinds.contract import Table, Tables
from perseid.jobs.stream_kinds.timed_rows import BY_TYPE, TimedRows


class DocumentStream(TimedRows):
    """Documents: XML or JSON in a column, files by their paths, or rows themselves; steps may be tree patterns."""

    kind: Literal["documents"]
    """The kind of stream."""
    body: str | None = None
    """The column with the document."""
    path: str | None = None
    """Instead of ``body``: the column with the path or URI of a document."""
    type: str | None = None
    """The column with the name that precedes ``<<`` in a step; without it, steps match every document."""
    namespaces: dict[str, str] = Field(default_factory=dict)
    """Namespaces of the prefixes in tree patterns."""
    trusted: bool = False
    """Skip the check that documents are well formed: only for documents that you produce yourself."""
    format: Literal["xml", "json", "row"] = "xml"
    """The format of documents; ``row``: each row is a document with its columns as elements."""

    @model_validator(mode="after")
    def _check_documents(self) -> DocumentStream:
        by_type = next((name for name in BY_TYPE if isinstance(getattr(self, name), dict)), None)
        if by_type is not None:
            raise ValueError(
                f"{by_type} must be the same for all tables of documents; use column names without event types"
            )
        if self.format == "row" and (self.body or self.path):
            raise ValueError("with format: row, the row is the document; remove body and path")
        if self.format != "row" and (self.body is None) == (self.path is None):
            raise ValueError("expected exactly one of body: COLUMN and path: COLUMN")
        if self.format == "json" and self.path is not None:
            raise ValueError("format: json needs documents in a column; use body: COLUMN instead of path")
        if self.namespaces and self.format != "xml":
            raise ValueError("namespaces need format: xml; remove namespaces or format")
        return self

    def declare(self, tables: Tables | Table) -> Documents:
        data = self.table_or_tables(self.require_tables(tables))
        options = self.row_options(data)
        if isinstance(options["id"], Mapping):  # documents have one identity for all tables: their common columns
            first, *other_tables = options["id"].values()
            options["id"] = tuple(name for name in first if all(name in names for names in other_tables))
        return documents(
            data,
            body=self.body,
            path=self.path,
            type=self.type,
            namespaces=self.namespaces,
            trusted=self.trusted,
            format=self.format,
            **options,
        )
