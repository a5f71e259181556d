"""Limits on pattern texts, so that malformed or adversarial text raises a typed error and does not hang the parser."""

from __future__ import annotations

MAX_TEXT = 1_000_000
"""Characters in one text; a file of patterns is one text."""
MAX_TOKENS = 10_000
"""Tokens in one pattern, query or rule; parsing time grows with them."""
MAX_NESTING = 60
"""Nesting depth of brackets, and length of a run of prefix operators."""
MAX_DEPTH = 150
"""Depth of the AST; a chain of 150 ``and`` reaches it too."""
MAX_ROUNDS = 10_000
"""Largest bound of a repetition."""
MAX_NAME = 200
"""Characters of a name."""
MAX_STEPS = 200
"""Steps in one pattern."""
MAX_PATTERNS = 20_000
"""Patterns in one text."""
MAX_EVIDENCE = 100_000
"""Largest ``evidence limit``."""
MAX_DURATION = 200_000 * 366 * 24 * 3600 * 1_000_000
"""200,000 years in microseconds: added to any time it still fits in 64 bits. Longer durations are ``forever``."""
MAX_INTEGER = 2**63 - 1
