"""The catalog: what is stored, by names and in words, in one SQLite file that is the system of record."""
