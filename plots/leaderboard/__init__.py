"""The ranking of a track's entries: rules, tables, pictures and page."""
