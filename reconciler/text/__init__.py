"""Text for people and machines: escaping, formatting, suggestions. Standard library only."""
