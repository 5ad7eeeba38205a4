"""Contract tests of compressors, algorithms, tasks and data sets: a pytest class each, for ours and for yours."""
