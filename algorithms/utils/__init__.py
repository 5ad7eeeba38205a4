"""Seeding, linear algebra, layout, rounding."""
