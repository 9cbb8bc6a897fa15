"""Warm workers: one Ray Train run per kind of device serves trial after trial and survives what they do."""
