"""One trial on one rank: the step under a technique, its timing, its memory, and how it can fail."""
