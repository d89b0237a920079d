"""Makes plans of facts and policies, bounds, saves, compares and rechecks them. Pure: no clock, no client, no Spark."""
