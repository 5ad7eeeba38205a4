"""A run's rows shown in a second place, wandb or TensorBoard. The run's folder is the authority."""
