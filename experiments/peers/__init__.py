"""Other packages on the same data, machine and run."""
