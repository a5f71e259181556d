"""Reference implementations: small, slow programs that define the meaning of patterns. Tests compare engines with them.

Production code does not import this package; a contract in pyproject.toml checks that. The only exception is
:mod:`perseid.viz`: its explanations trace the interpreter, as they explain the specification and decide no match.
"""
