"""Figures of conf/figure: what they ask for, their runs, and the committed results."""
