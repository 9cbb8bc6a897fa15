"""Several workers: links, collectives, and what synchronisation adds to a step."""
