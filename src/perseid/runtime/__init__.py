"""What engines share: their contract, event batches, keys, state encoding, and the compilation of kernels."""
