"""Data sets of rows, images and text, and their partition over workers."""
