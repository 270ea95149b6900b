"""Benchmarks of a service: its shortlist, its answers over HTTP, its ingestion, its start and memory."""
