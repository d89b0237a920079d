"""Text for people and for machines: escaping, formatting of instants and counts, suggestions. Standard library only."""
