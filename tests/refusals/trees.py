"""Tree patterns over documents."""

from tests.refusals.case import Case

TITLE = "Tree patterns"
CASES = (
    Case('ps.trees("//r(/a[last()]::/b)->x").match(documents)', "cannot be a member of a run of siblings", "end the run there"),
    Case('ps.documents(rows, path="p", format="json")', "JSON is read from a column", "`body=…`"),
    Case('pattern("match S << //a->x >> a -> S << //b->x[/c->y]/d->z >> b within 1 hour return b.w").match(documents)', "returns no 'w'", "a returned name", error="UnknownNameError"),
)  # fmt: skip
