"""Paper 5's experiment, its data: a building whose antennas miss much, people who live in it, real walks, and scores."""
