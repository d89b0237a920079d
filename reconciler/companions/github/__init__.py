"""GitHub: workflows as data, its API, and what protects a repository."""
