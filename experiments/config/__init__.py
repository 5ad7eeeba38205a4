"""The configuration: its schema, how it is composed and checked, and the id that follows from it."""
