"""From a kernel and statistics to a factorised posterior precision and the bounds."""
