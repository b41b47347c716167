"""Model files: arrays and JSON in one archive, from which nothing is ever executed."""
