"""Settings of streams in job files: one class per kind, which the kind names in ``job_settings``."""
