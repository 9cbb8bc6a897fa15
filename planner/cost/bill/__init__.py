"""What a run costs: hours, prices and every term that comes to the rent."""
