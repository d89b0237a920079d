"""Talks to the brokers; decides no policy. No object or error of the Kafka client leaves it."""
