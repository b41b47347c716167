"""Data sources, and models on disk."""
