"""The engine for live models: incrementally maintained queries; found and lost matches are events (paper 2)."""
