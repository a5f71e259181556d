"""Paper 4's experiment, event by event, in calls of an engine, and on Spark."""
