"""The cross-attention models: each scores sentences with pictures, by the interface in base.py."""
