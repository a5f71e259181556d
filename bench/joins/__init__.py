"""Paper 3's experiments: many queries that join documents by value, shared by template and one by one."""
