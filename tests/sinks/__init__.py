"""Sinks that need no server."""
