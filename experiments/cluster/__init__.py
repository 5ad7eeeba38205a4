"""Where the three phases of a round happen."""
