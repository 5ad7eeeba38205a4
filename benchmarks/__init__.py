"""Speed and wire measurements, as ratios taken in one run."""

import experiments  # noqa: F401 (sets how torch's threads wait, before torch is imported)
