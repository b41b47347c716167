"""Data of any size and kind, read in chunks of bounded size; models on disk.

`source` says what a source is, and finds the one for what the user gave; every other file is
one kind of data, imported when it is met. `persistence` saves and loads models.
"""
