"""Data of any size and kind, read in chunks of bounded size; and models on disk.

`source` says what a source is, and finds the one for what the user gave; every other file is
one kind of data, imported when it is met. `model_file` and `persistence` keep a fitted model.
"""
