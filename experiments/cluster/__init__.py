"""Clusters run the three phases of a round."""
