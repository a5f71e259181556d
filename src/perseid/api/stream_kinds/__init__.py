"""Kinds of streams: one module with one class per kind, and one line per kind in ``registry``."""
