"""Checks of claims by measured curves."""
