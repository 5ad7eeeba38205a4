"""Communication-compressed optimization on flat tensors: compressors, channels, updates and the methods made of them.

Shapes everywhere: the last axis is coordinates (d), the axis before it workers (W), any leading axes (*T) are
independent trials, such as the step sizes of a grid. The mathematics, that is compressors/,
methods/ and what they are made of, knows of no files, configuration or process groups; the wires, the optimizer and
what lies above it do.
"""
