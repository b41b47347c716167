"""Hyperparameters and resolution: objectives, optimiser, starting values, schedules."""
