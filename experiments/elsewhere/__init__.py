"""Strategies from elsewhere on this harness's tasks, unchanged, with their collectives counted."""
