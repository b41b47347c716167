"""The scikit-learn estimators: they validate and orchestrate, and hold no mathematics."""
