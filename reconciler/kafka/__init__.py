"""Talks to the brokers. The only package that imports the Kafka client; decides no policy.

No client object and no client error leaves this package.
"""
