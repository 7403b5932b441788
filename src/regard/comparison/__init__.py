"""Several systems on one corpus under one budget -> one table and its figures."""
