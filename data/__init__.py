"""Data sets for binary classification, and how their rows are shared over workers."""
