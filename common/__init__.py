"""What every part shares: errors, names, tables, progress and files. No torch."""
