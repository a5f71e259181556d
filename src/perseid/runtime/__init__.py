"""Shared parts of engines: their contract, event batches, keys, state encoding, and the compilation of kernels."""
