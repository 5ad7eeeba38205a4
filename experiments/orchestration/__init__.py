"""Several runs from one command: every combination of a grid, each in a process of its own."""
