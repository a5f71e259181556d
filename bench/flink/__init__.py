"""Flink compared with a stream of ours: ``queries.py`` has its queries, ``process.py`` its process, ``lanes.py`` its
files."""
