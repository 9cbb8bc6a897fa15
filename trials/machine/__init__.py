"""What this machine is, and what its kernel counts. Imports neither torch nor ray."""
