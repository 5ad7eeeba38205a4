"""Running things: one run, a figure's runs, and what they leave on disk."""

import os

# How often an idle thread of torch looks for work before it sleeps. By default it spins for milliseconds: on cores
# that other programs use too, that made runs up to ten times slower. It must be set before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
