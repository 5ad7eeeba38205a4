"""Figures of conf/figure: their configurations, their runs, and the committed results."""
