"""Paper 2's live models: the social media case of TTC 2018, and railways as in the Train Benchmark."""
