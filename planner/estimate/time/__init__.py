"""One worker's step: measured lines, traced operations, and the chips that they ran on."""
