"""The page of a document, with pictures."""
