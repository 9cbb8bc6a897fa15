"""From a measured setting to another chip, precision or technique."""
