"""Tensors in, tensors out: the matching models, their training and their evaluation."""
