"""Which trial next, whether it pays, and when to stop."""
