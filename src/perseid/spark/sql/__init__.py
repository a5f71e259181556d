"""Spark SQL for each kind of expression: as exact as the reference evaluator, and never raising."""
