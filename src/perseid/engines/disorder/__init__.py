"""Engines for streams with late and out-of-order events, one per disorder strategy."""
