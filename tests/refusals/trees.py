"""Rejected combinations for tree patterns over documents."""

from tests.refusals.case import Case

TITLE = "Tree patterns"
CASES = (
    Case('ps.xml.tree_patterns("//r(/a[last()]::/b)->x").match(documents)', "a[last()] is unsupported in a run of siblings", "a run that ends with this node"),
    Case('ps.documents(rows, path="p", format="json")', "path= does not support JSON: JSON is read from a column", "`body=…`"),
    Case('pattern("match S << //a->x >> a -> S << //b->x[/c->y]/d->z >> b within 1 hour return b.w").match(documents)', "b.w: the tree pattern of b does not return 'w'", "a returned name", error="UnknownNameError"),
    Case('pattern("match S << //a->x[//b->y] >> s return s.y").match(nested)', "Results have more than 256 times the bytes of the document plus 64 MB: nested nodes repeat the content that they share, so return fewer of them", "return fewer nodes that lie inside each other: `//b->y`", error="DocumentError"),
)  # fmt: skip
