"""Entries of the leaderboard: the tracks, the tuning of a method, and the files of an entry."""
