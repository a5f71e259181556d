"""Limits on what the language accepts, so that hostile text ends in a typed error and not in a hang."""

from __future__ import annotations

MAX_TEXT = 1_000_000
"""Characters in one text; a file of patterns is one text."""
MAX_TOKENS = 10_000
"""Words and signs in one pattern; the time to read a text grows with them."""
MAX_NESTING = 60
"""Brackets, parentheses and operators inside one another."""
MAX_DEPTH = 150
"""Levels of the finished tree; a chain of 150 ``and`` is such a tree too."""
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
"""200,000 years in microseconds: added to any time it still fits in 64 bits; anything longer is ``forever``."""
MAX_INTEGER = 2**63 - 1
