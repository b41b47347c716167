"""Judgements of a fitted model: leave-one-out, calibration, summary, standard errors."""
