"""What a compressor, an algorithm, a task or a data set keeps: a pytest class a kind, for ours and for yours."""
