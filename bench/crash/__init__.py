"""A whole job, with servers, files and processes of its own, that is hurt again and again and has to come out right."""
