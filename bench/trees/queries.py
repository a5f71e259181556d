"""The queries of paper 1's Table 6, as printed, and the documents that the paper measures them on."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("tree", "comparison", ":", "|", "*")
"""Lines of Figure 2: patterns without order, with a comparison, and with each operator over siblings."""
MEGABYTES = {"dblp": (133.9,), "treebank": (86.1,), "xmark": (11.9, 59.0, 118.6, 595.7, 1218.6)}
"""Sizes of the paper's documents (Tables 4 and 5)."""
XMARK_SCALES = (0.1, 0.5, 1.0, 5.0, 10.0)


@dataclass(frozen=True)
class TreeQuery:
    """A query, its document, and its line in Figure 2."""

    name: str
    text: str
    document: str
    kind: str

    @property
    def returns(self) -> bool:
        """True if the query returns nodes; otherwise its result is yes or no."""
        return "->" in self.text


QUERIES = {
    query.name: query
    for query in (
        TreeQuery("Q1.1", "//dblp/article[/author][//title][//url][//ee]//year", "dblp", "tree"),
        TreeQuery("Q1.2", "//dblp[//article[/author->A][/title][/pages][/year]]", "dblp", "tree"),
        TreeQuery("Q1.3", "//dblp[//article(/author->A:/title:/pages:/year)]", "dblp", ":"),
        TreeQuery("Q1.4", "//dblp[//article(/author->A:/title:(/pages|/year))]", "dblp", "|"),
        TreeQuery("Q1.5", "//dblp[//article(/author->A:/title:(/pages*):/year)]", "dblp", "*"),
        TreeQuery("Q2.1", "//S/VP//PP[//NN][//NP[//CD]/VBN]/IN", "treebank", "tree"),
        TreeQuery("Q2.2", "//VP[/PP[/IN][/NP->N[/CD][/VBN]]]", "treebank", "tree"),
        TreeQuery("Q2.3", "//VP[/PP(/IN:/NP->N[/CD][/VBN])]", "treebank", ":"),
        TreeQuery("Q2.4", "//VP[/PP(/IN|/NP->N[/CD][/VBN])]", "treebank", "|"),
        # Printed without a slash after the first bracket, which the parser accepts as one, with a warning.
        TreeQuery("Q2.5", "//VP[PP(/IN*|/NP->N[/CD][/VBN])]", "treebank", "*"),
        TreeQuery("Q3.1", "//item[/location][//mailbox/mail//emph][/description//keyword]", "xmark", "tree"),
        TreeQuery("Q3.2", "//people[//person[/address->A[/zipcode]][/profile[/education][//age]]]", "xmark", "tree"),
        TreeQuery("Q3.3", "//people[//person(/address->A[/zipcode]:/profile[/education][//age])]", "xmark", ":"),
        TreeQuery("Q3.4", "//people[//person(/address->A[/zipcode]|/profile[/education][//age])]", "xmark", "|"),
        TreeQuery("Q3.5", "//people[//person((/address->A[/zipcode])*:/profile[/education][//age])]", "xmark", "*"),
        TreeQuery(
            "Q3.6", "//people[//person[/address->A[/zipcode=6]][/profile[/education][//age]]]", "xmark", "comparison"
        ),
    )
}
