"""What a study says, as terminal text, HTML, JSON and Markdown."""
