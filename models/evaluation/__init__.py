"""Recalls with confidence intervals, score matrices, and the fitting of calibrations on captioned pictures."""
