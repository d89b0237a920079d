"""The command line: arguments, printing and exit codes. One file per command; nothing else prints."""
