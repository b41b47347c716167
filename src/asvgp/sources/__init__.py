"""Data of any size and kind, read in chunks of bounded size."""
