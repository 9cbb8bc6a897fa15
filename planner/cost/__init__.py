"""What a run costs: hours and prices, the whole bill, spot."""
