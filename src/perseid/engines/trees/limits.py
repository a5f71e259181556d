"""Limits of documents and their results. Whatever exceeds them is rejected, so adversarial documents are harmless."""

from __future__ import annotations

DEEPEST = 10_000
"""Nesting depth of elements."""
MAX_ATTRIBUTES = 10_000
"""Per tag."""
MAX_NAMES = 1 << 16
NAME_BYTES = 1 << 22
LONGEST_TAG = 1 << 24
"""Bytes per tag."""
MAX_VALIDATED_TOKEN = 1 << 24
"""Bytes of a tag, a comment or an instruction that expat validates, because expat buffers it whole."""
LARGEST_PIECE = 1 << 26
"""Bytes per input piece of the scanner: token offsets are int32."""
LONGEST_DECLARATION = 4096
MAX_JSON_GROWTH = 8
"""The XML of a JSON document has at most MAX_JSON_GROWTH times its length plus GROWTH_ALLOWANCE_BYTES, and at most
MAX_GROWTH times its length, in characters."""
MAX_GROWTH, GROWTH_ALLOWANCE_BYTES = 256, 1 << 26
"""All results of a document have at most MAX_GROWTH times its bytes plus GROWTH_ALLOWANCE_BYTES: the bytes of their
texts, and 56 for each output row.

Nested nodes repeat the text and the nodes that they share.
"""
