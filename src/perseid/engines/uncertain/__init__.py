"""Streams that are known only by chance: paper 5's Lahar, and the hidden Markov models that its streams come from."""
