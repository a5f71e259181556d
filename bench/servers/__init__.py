"""Real servers for tests and benchmarks, on 127.0.0.1, stopped by the code that started them."""
