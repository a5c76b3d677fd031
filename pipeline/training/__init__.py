"""Train one fold: its batches, loop, checkpoints and metrics. `engine` decides which folds, and keeps the results."""
