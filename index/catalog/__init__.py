"""The catalog: one SQLite file, the system of record for pictures, their descriptions and jobs."""
