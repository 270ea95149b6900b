"""The stores: records, shortlists, the catalog. Ids and numpy arrays only; nothing here knows a model."""
