"""Paper 5's experiment and its data: a simulated building with unreliable antennas, its people, real walks, and
scores."""
