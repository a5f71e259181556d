"""Esper in memory beside the kernel, one thread each: ``queries.py`` what it is asked, ``rival.py`` its process."""
