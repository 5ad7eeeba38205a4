"""One round: worker, server, replica; channels, aggregation, update rules, bits."""
