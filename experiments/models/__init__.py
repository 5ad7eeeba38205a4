"""Networks for small images, their initial parameters, and any network as one flat vector."""
