"""Extension of Griffe: docstrings have Sphinx roles, and Markdown has code and cross-references."""

from __future__ import annotations

import re

from griffe import Extension, Object

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod|obj):`~?([^`]+)`")
LITERAL = re.compile(r"``([^`]+)``")


class Roles(Extension):
    """Replace roles by code."""

    def on_object(self, *, obj: Object, **kwargs: object) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = LITERAL.sub(r"`\1`", ROLE.sub(r"`\1`", obj.docstring.value))
