"""The winner as a file that launches it."""
