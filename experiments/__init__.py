"""Running things: one run, a figure's runs, and what they leave on disk."""
