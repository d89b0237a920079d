"""The command line: arguments, printing and exit codes. Nothing else prints."""
