"""The journal: an intent before each request, an outcome after it, and what follows from both."""
