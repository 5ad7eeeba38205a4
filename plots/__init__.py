"""Figures and claims, made from run folders alone."""
