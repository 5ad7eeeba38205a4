"""Configurations: schema, composition, checks and run ids."""
