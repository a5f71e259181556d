"""Kernels over arrays: what finds, orders and names matches, without Spark."""
