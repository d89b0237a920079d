"""The journal: an intent before each request, an outcome after it. Entries, where they are stored, and what follows from them."""
