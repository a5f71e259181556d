"""Value joins across documents, shared by template: paper 3's Massively Multi-Query Join Processing."""
