"""Shared by all packages: errors, names, tables, progress and files. Nothing here imports torch."""
