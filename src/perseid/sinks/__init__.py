"""Sinks of matches: each is configured in a job file, and writes batches with a declared guarantee on retries."""
