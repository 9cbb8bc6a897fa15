"""What a sweep has found, kept: the Optuna study, its storage, and those who read it."""
