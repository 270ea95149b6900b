"""Views: pictures and captions as one model encodes them, in memory-mapped files, with shortlists to search."""
