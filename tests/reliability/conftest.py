"""How many cases are tried: some hundred by default, 300,000 of each kind with --hypothesis-profile=soak."""

import hypothesis

hypothesis.settings.register_profile("default", max_examples=200, deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", max_examples=300_000, deadline=None)
