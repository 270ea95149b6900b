"""Views: pictures and captions as encoded by one model, in memory-mapped files, with shortlists for search."""
