"""``python -m bench report``: every engine on one workload, and the page ``docs/benchmarks/index.md``."""
