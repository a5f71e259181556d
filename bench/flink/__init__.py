"""Flink beside a stream of ours: ``queries.py`` what it is asked, ``rival.py`` its process, ``lanes.py`` its files."""
