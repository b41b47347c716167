"""Series: components along one input, on cells of their own, with seasons and drifting seasons."""
