"""Recalls with their confidence, score matrices, and the fitting of calibrations on captioned pictures."""
