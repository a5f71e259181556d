"""The reference: small programs that define what patterns mean, slowly. Tests compare engines with them.

Production code does not import this package; a contract in pyproject.toml checks that.
"""
