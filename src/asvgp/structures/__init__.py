"""A model as the estimator sees it: reading inputs, preparing statistics, fitting, predicting."""
