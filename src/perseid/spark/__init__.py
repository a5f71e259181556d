"""Run Perseid on Apache Spark: planning on the driver, and the tasks that executors run."""
