"""The ranking of a track's entries: its rules, its tables, pictures and page."""
