"""Fault injection: a complete job with its own servers, files and processes must leave correct sinks."""
