"""Siddhi in memory, on one thread: ``queries.py`` has its apps, ``process.py`` its process."""
