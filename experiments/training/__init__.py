"""One run from its configuration to its last round."""
