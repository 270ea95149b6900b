"""The stored state: the catalog, an SQLite file, and views, memory-mapped records with shortlists; no tensors."""
