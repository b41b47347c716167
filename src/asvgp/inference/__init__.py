"""From a kernel and sufficient statistics to bounds, gradients and trained values."""
