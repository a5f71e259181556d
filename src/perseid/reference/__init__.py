"""The reference: small programs that define what patterns mean, slowly. Tests compare engines with them.

Production code does not import this package; a contract in pyproject.toml checks that. The one exception are explanations
in :mod:`perseid.viz`: they trace the interpreter, because they explain the specification and decide no match.
"""
