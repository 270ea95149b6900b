"""Matchers: rerankers with stage one, vocabulary, hubness correction and calibration; their folders on disk."""
