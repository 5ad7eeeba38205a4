"""Loggers show a run's rows in wandb or TensorBoard. The run's folder is the authority."""
