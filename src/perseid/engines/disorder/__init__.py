"""Streams whose events arrive late and in the wrong order: what may be told, and when."""
