"""Perseid on Apache Spark: what runs inside the engine, and how patterns get there."""
