"""Mirrors of a run's rows elsewhere: the run's folder is the authority, and training never waits for them."""
