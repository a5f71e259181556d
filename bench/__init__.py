"""Benchmarks: ``python -m bench NAME [--size quick|standard|full]``."""
