"""Speed and wire measurements, as ratios taken in one run."""
