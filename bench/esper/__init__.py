"""Esper in memory compared with the kernel, one thread each: ``queries.py`` has its statements, ``process.py`` its
process."""
