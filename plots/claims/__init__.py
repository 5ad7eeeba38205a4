"""Claims held against measured curves."""
