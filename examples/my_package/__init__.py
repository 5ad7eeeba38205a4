"""A compressor, an algorithm, a task and a data set outside the project: see README.md in this folder."""
