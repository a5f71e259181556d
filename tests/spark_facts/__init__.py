"""One small test per fact about Spark that the design stands on. Nothing of Perseid is tested here."""
