"""External strategies on this harness's tasks, unchanged, with their collectives counted."""
