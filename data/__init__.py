"""Data sets for classification, of rows and of images, and how they are shared over workers."""
