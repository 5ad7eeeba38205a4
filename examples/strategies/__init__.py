"""External strategies: torch's communication hooks, and EXO Gym's DiLoCo."""
