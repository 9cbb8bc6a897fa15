"""Peak memory of one rank, and the largest micro batch that fits."""
