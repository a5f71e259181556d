"""One small test for each fact about Spark that the design depends on. These tests do not run Perseid."""
