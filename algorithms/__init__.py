"""Communication-compressed optimization on flat tensors: compressors, channels, updates and the methods made of them.

Shapes everywhere: the last axis is coordinates (d), the axis before it workers (W), any leading axes (*T) are
independent trials, such as the step sizes of a grid. No I/O, no configuration but in named.py; wire.py and, above it,
optimizer.py alone know of process groups.
"""
