"""Read data of any size and kind in chunks of bounded size."""
