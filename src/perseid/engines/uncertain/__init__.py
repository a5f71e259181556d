"""Pattern matching over probabilistic streams (Lahar, paper 5), and inference in their hidden Markov models."""
