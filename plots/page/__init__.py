"""All runs on one interactive page."""
