"""Which plan: what could be run, what fits, what each plan costs, how they rank, and why."""
