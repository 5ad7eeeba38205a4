"""Run folders read: found, as tables, with their columns, variants, best step sizes and times."""
