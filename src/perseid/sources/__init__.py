"""Where events come from: each source is what a job is told of it, and opens as a DataFrame."""
