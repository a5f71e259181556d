"""Drawings and explanations of patterns."""
