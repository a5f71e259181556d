"""Matching in one process, without a cluster."""
