"""Arguments, printing and exit codes: the only package that prints. One file per command; logic lives in pipeline.py and below."""
