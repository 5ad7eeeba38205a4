"""A figure: its curves, its tables and the files it leaves."""
