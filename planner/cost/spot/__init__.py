"""What a run on instances that can be taken away costs and takes, and which way of renting suits it."""
