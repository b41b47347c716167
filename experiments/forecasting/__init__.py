"""Forecasts of real series, beside other packages: blocked hold-outs, and rolling origins."""
