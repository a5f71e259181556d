"""Value joins across documents, shared by template: Massively Multi-Query Join Processing (Hong et al., paper 3)."""
