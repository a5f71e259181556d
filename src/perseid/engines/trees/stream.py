"""A declared stream of documents, and its conversion to events: a result of a tree pattern is an event.

A step ``Orders << //order->o >>`` matches documents by a tree pattern. Before anything else is planned, it becomes a
step for events of a type of its own. Documents are read where they are stored; their results are events with the
columns of the document and the texts of the returned nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from perseid.engines.sequence.results import Matches
from perseid.engines.sequence.stream import Events
from perseid.engines.trees.engine import Trees, TreesPlan, compile_trees
from perseid.engines.trees.formats import JSON, ROW, XML
from perseid.engines.trees.limits import DEEPEST, GROWTH_ALLOWANCE_BYTES, MAX_ATTRIBUTES, MAX_GROWTH
from perseid.engines.trees.results import result_fields
from perseid.engines.trees.row_documents import has_text, textless
from perseid.errors import EventDataError, SemanticError, UnknownNameError, missing_column, nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.tree_patterns import Exists, TreeNode, TreePart, TreePattern, children, return_names, walk
from perseid.lang.tree_types import tree_type
from perseid.runtime.declaration import Data_co, StreamDeclaration
from perseid.runtime.document_columns import BODY, DOCUMENT, PLACE, STREAM, TYPE, WRONG
from perseid.runtime.query import EventIdentity, PrepareInput, PrepareStage, TableColumn, TableSchema
from perseid.semantics import types as t

ANY_DOCUMENT = "Document"
"""The type of a document without a declared one."""
_PROVED = "XML, proven well formed by the scanner, or validated by expat"
_FORMAT_DESCRIPTIONS = {
    JSON: "JSON: the root is /json, a member is an element of its name, each array item is an element, null is none",
    ROW: "rows: the root is /row, a column is an element of its name, each array item is an element, null is none",
}


@dataclass(frozen=True)
class Documents(StreamDeclaration[Matches, Data_co]):
    """A declared stream of documents; create one with :func:`perseid.documents`."""

    stream_kind: ClassVar[str] = "documents"
    events: Events
    """The declaration of its rows, as of any events."""
    body: str | None
    path: str | None
    type: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    trusted: bool = False
    format: str = XML

    @property
    def column(self) -> str | None:
        """The column that documents are read from; None if a row with all its columns is a document."""
        return self.body if self.body is not None else self.path

    @property
    def is_path(self) -> bool:
        return self.path is not None

    def trees(self, patterns: Iterable[TreePattern]) -> Trees:
        """Compile tree patterns for these documents."""
        return compile_trees(patterns, self.namespaces, self.trusted, self.format)

    def bind_trees(self, trees: Trees, names: Sequence[str], schemas: Sequence[TableSchema]) -> PrepareStage:
        """Return the stage that emits the results of tree patterns with these names as rows."""
        fields = result_fields(trees.patterns)
        plan = TreesPlan(trees, (), (), (), self.is_path, names=tuple(names))
        columns = {field.name: field.type for field in fields}
        inputs = tuple(self.bind_table(schema) for schema in schemas)
        for schema in schemas:
            self.refuse_returned(columns, list(schema.columns))
        return PrepareStage("trees", plan, columns, inputs)

    def bind_table(self, schema: TableSchema) -> PrepareInput:
        """Return the input of a table with this schema. All columns that can cross pass through, except bodies."""
        columns = schema.columns
        self.require(list(columns), schema.event_type)
        if self.column is None:
            for name, column in columns.items():
                if column.type is None or not has_text(column.type):
                    raise textless(name, column.type_name)
        else:
            self._require_readable(self.column, columns[self.column])
        retained = tuple(name for name, column in columns.items() if column.type is not None and name != self.body)
        return PrepareInput({BODY: retained if self.column is None else self.column}, {}, retained)

    def bind_events(self, schema: TableSchema) -> PrepareInput:
        """Return the input of a table with this schema that has documents as events."""
        table_input = self.bind_table(schema)
        self.require_time(list(schema.columns))
        named = schema.event_type is None and self.type is not None
        return replace(
            table_input,
            columns={**table_input.columns, **({STREAM: str(self.type)} if named else {})},
            constants={} if schema.event_type is None else {STREAM: schema.event_type},
            identity=EventIdentity(self.events.id),
            time=self.events.time,
            body=None if self.body is None else BODY,
        )

    def _require_readable(self, name: str, column: TableColumn) -> None:
        readable = t.String if self.is_path else t.String | t.BinaryType
        if not column.is_null and not isinstance(column.meaning, readable):
            role = "path" if self.is_path else "body"
            raise EventDataError(
                f"Column {name!r}, configured as the {role} of documents, is {column.type_name}.",
                hint="Use a string column for paths, a string or binary column for bodies.",
            )

    def inputs(self) -> list[tuple[str | None, Any]]:
        """Return the tables, with the type of their documents if there are several."""
        data = self.events.data
        return list(data.items()) if isinstance(data, Mapping) else [(None, data)]

    def require(self, names: Sequence[str], event_type: str | None = None) -> None:
        """Validate that a table has the columns declared for documents, and no reserved column names."""
        of_table = "" if event_type is None else f" of {event_type}"
        for role, name in (("path" if self.is_path else "body", self.column), ("type", self.type)):
            if name is not None and name not in names:
                raise missing_column(
                    f"The table{of_table}", name, f"{role} of documents", names, f"ps.documents(df, {role}=…)"
                )
        for name in (DOCUMENT, PLACE, TYPE, WRONG):
            if name in names:
                raise EventDataError(f"Column {name!r}{of_table} has a reserved name.", hint="Rename the column.")

    def require_time(self, names: Sequence[str]) -> None:
        """Validate that a table has the time column, which documents need only as events."""
        time = self.events.time
        if time not in names:
            raise missing_column("The table", time, "time column of documents", names, "ps.documents(df, time=…)")

    def require_streams(self) -> None:
        """Validate that documents can be joined: that they are read as a whole, and that each has a stream."""
        if self.is_path:
            raise EventDataError(
                "Subscriptions read whole documents, and these are declared by their paths.",
                hint="Read the files into a column, and use ps.documents(data, body=…).",
            )
        if self.type is None and any(event_type is None for event_type, _ in self.inputs()):
            raise EventDataError(
                "Subscriptions match documents by stream, and no stream is declared for these documents.",
                hint="Use ps.documents(data, type=…) with the column of stream names, or pass a table for each stream: "
                "{'Feed': data}.",
            )

    def refuse_returned(self, returned: Iterable[str], names: Sequence[str]) -> None:
        """Validate that no return name is the name of a column that passes through."""
        for name in returned:
            if name in names and name != self.body:
                raise EventDataError(
                    f"Name conflict: the pattern returns {name!r}, and the table has a column {name!r}.",
                    hint=f"Rename one of them: ->{name}_node.",
                )

    def explain(self) -> str:
        """Describe the input, format, limits and namespaces of documents."""
        source = "all columns of a row" if self.column is None else f"column {self.column!r}"
        source = f"files with paths in column {self.path!r}, in chunks" if self.is_path else source
        proof = _FORMAT_DESCRIPTIONS.get(self.format, "XML, trusted to be well formed" if self.trusted else _PROVED)
        lines = [
            "documents",
            f"  source: {source}; read before the shuffle, so bodies are not shuffled",
            f"  format: {proof}; an unreadable document is a bad row",
            f"  limits: nesting depth {DEEPEST:,}, {MAX_ATTRIBUTES:,} attributes per tag, results of {MAX_GROWTH} times the bytes "
            f"of the document plus {GROWTH_ALLOWANCE_BYTES >> 20} MB",
        ]
        lines += [f"  namespace {prefix or '(none)'}: {uri}" for prefix, uri in self.namespaces]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<documents: {self.format if self.column is None else repr(self.column)} of {self.events!r}>"


@dataclass(frozen=True)
class TreeStep:
    """A tree pattern of steps, and the type of its results as events."""

    stream: str
    tree: TreePattern
    namespaces: tuple[tuple[str, str], ...] = ()
    """The namespaces of its prefixes."""

    @property
    def type(self) -> str:
        return tree_type(self.stream, self.tree, self.namespaces)


@dataclass(frozen=True)
class TreeQuery:
    """Tree patterns to match with documents, and whether documents are events themselves."""

    steps: tuple[TreeStep, ...]
    whole: bool

    def bind(self, documents: Documents, schemas: Sequence[TableSchema]) -> PrepareStage:
        """Return the stage that converts documents in tables with these schemas to events."""
        for schema in schemas:
            documents.refuse_returned(self.variables, list(schema.columns))
        plan = TreesPlan(
            documents.trees(step.tree for step in self.steps),
            tuple(step.type for step in self.steps),
            tuple(step.stream for step in self.steps),
            self.variables,
            documents.is_path,
            ANY_DOCUMENT if self.whole else None,
        )
        texts = dict.fromkeys((TYPE, *self.variables), pa.string())
        inputs = tuple(documents.bind_events(schema) for schema in schemas)
        return PrepareStage("trees", plan, {**texts, PLACE: pa.int64()}, inputs)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for step in self.steps for name in return_names(step.tree)))


def extract_trees(
    patterns: Sequence[ast.PatternDefinition], namespaces: Sequence[tuple[str, str]] = ()
) -> tuple[tuple[ast.PatternDefinition, ...], TreeQuery]:
    """Replace tree patterns in steps by event types; return the patterns, and the trees that were replaced."""
    trees: dict[TreeStep, None] = {}
    whole = False
    names = {pattern.name for pattern in patterns}

    def lowered(value: Any) -> Any:
        nonlocal whole
        if isinstance(value, ast.TreeMatch):
            tests = [part.test for part, _ in walk(value.tree) if isinstance(part, TreeNode)]
            used = {test.prefix or "" for test in tests if test.prefix is not None or not test.is_wildcard}
            step = TreeStep(value.stream, value.tree, tuple(one for one in namespaces if one[0] in used))
            trees[step] = None
            return ast.EventType(step.type)
        if isinstance(value, ast.AnyEvent) or (isinstance(value, ast.EventType) and value.name not in names):
            whole = True
            return value
        if isinstance(value, tuple):
            return tuple(map(lowered, value))
        if isinstance(value, ast.ELEMENT_TYPES) and is_dataclass(value):
            parts = {part.name: getattr(value, part.name) for part in fields(value)}
            return replace(value, **{name: lowered(part) for name, part in parts.items()})
        return value

    lowered_patterns = tuple(replace(pattern, match=lowered(pattern.match)) for pattern in patterns)
    return lowered_patterns, TreeQuery(tuple(trees), whole)


def together(part: TreePart) -> list[tuple[str, ...]]:
    """Group the return names of a tree pattern: names of one group are returned in one result."""
    if isinstance(part, TreeNode) and part.returns is not None:
        return [return_names(TreePattern(part))]
    groups: list[tuple[str, ...]] = []
    for child in children(part):
        child_groups = together(child)
        if child_groups and _is_run(part, child):
            child_groups = [tuple(name for group in child_groups for name in group)]
        groups += child_groups
    return groups


def _is_run(part: TreePart, child: TreePart) -> bool:
    """Return whether a child is an expression over siblings, with runs as results."""
    if isinstance(part, TreeNode):
        return child is part.siblings
    return isinstance(part, Exists) and not isinstance(child, TreeNode)


def check_variables(patterns: Sequence[ast.PatternDefinition], columns: Sequence[str]) -> None:
    """Validate that a tree step has one group of results, and that references to it name returned nodes or columns."""
    for pattern in patterns:
        for step in ast.steps(pattern.match):
            groups = together(step.kind.tree.root) if isinstance(step.kind, ast.TreeMatch) else []
            if len(groups) > 1:
                raise SemanticError(
                    f"{groups[0][0]!r} and {groups[1][0]!r} are returned in separate results, so no event has both.",
                    span=step.span,
                    hint="Also return a node that contains both, for example //order->order[/@no->no][/total->total].",
                )
        trees = {
            step.name: step.kind.tree
            for step in ast.steps(pattern.match)
            if step.name is not None and isinstance(step.kind, ast.TreeMatch)
        }
        for ref in _refs(pattern):
            tree = trees.get(ref.parts[0]) if len(ref.parts) > 1 else None
            if tree is None:
                continue
            available = [*return_names(tree), *columns]
            if ref.parts[1] not in available:
                raise UnknownNameError(
                    f"{'.'.join(ref.parts[:2])}: the tree pattern of {ref.parts[0]} does not return {ref.parts[1]!r}.",
                    nearest=nearest(ref.parts[1], available),
                    span=ref.span,
                    hint=f"Returned: {', '.join(return_names(tree)) or 'none'}. Add ->{ref.parts[1]} after a step to return its node.",
                )


def _refs(value: object) -> Iterator[ex.Ref]:
    if isinstance(value, ex.Ref):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _refs(part)
    elif is_dataclass(value) and not isinstance(value, type | TreePattern):
        for part in fields(value):
            yield from _refs(getattr(value, part.name))


def event_stream(documents: Documents, data: object) -> Events:
    """Declare the events of results; ``data`` has their rows."""
    order = (*documents.events.order_by, DOCUMENT, PLACE)
    return replace(documents.events, data=data, type=TYPE, id=(DOCUMENT, TYPE, PLACE), order_by=order, wrong=WRONG)
