"""Models behind one protocol: reading inputs, preparing statistics, fitting, predicting."""
