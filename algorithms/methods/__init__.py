"""One file per published method: its equations, its source and its composition."""
