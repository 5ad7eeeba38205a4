"""Entries of the leaderboard: its tracks, what a method is tuned over, and the files of an entry."""
