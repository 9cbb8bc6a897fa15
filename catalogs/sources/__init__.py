"""One file per foreign catalog format, each to Offer."""
