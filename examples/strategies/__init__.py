"""Strategies from elsewhere: torch's communication hooks, and EXO Gym's DiLoCo."""
