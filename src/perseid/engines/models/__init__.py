"""The engine for live models: queries kept as the model changes; what they find and lose are events (paper 2)."""
