"""The cross-attention models, which score sentences with pictures by the interface in base.py."""
