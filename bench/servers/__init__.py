"""Real servers for tests and benchmarks, on this machine's own address, stopped by whoever started them."""
