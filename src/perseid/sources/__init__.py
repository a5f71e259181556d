"""Sources of events: each is configured in a job file and opens as a DataFrame."""
