"""Where matches go: each sink is what a job is told of it, and writes a batch so that writing it again changes nothing."""
