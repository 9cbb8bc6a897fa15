"""What can be rented: accelerators and priced instances, as tables with a source per row."""
