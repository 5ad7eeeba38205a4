"""The errors this package raises on purpose."""

from __future__ import annotations


class DataError(Exception):
    """Data that is missing, damaged or asked for wrongly; the message is meant for the user as it is."""


class Unavailable(DataError):
    """Data that is not here and cannot be fetched from here."""
