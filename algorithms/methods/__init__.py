"""One file a published method: its equations, its source and its composition."""
