"""One script a method, run in the environment it needs; `child` is what they share."""
