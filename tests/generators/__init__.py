"""Random expressions, patterns, models, streams and rules for property tests."""
