"""Running things: one run, a figure's runs, and what they leave on disk."""

import os

# Threads that wait for work then sleep instead of spinning: on cores that other programs use too, spinning made runs
# up to ten times slower. It must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
