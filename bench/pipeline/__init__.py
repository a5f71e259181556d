"""Benchmarks of jobs from Kafka to Kafka: throughput, latency, and growth of memory and state."""
