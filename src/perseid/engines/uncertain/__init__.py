"""Uncertain streams (paper 5, Lahar): the same pattern, answered with a probability."""
