"""What runs will cost, before they begin."""
