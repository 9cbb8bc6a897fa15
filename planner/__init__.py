"""What should I rent: estimates, costs, the search, and the report."""

__version__ = "0.1.0"
