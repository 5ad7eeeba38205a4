"""Figures and claims from run folders alone."""
