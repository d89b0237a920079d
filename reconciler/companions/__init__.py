"""What explains, advises or integrates: it reads documents or a scan, and the core never imports it.

The core finds a companion by its name: commands in `cli/app.py`, documents in `cli/common.py`.
"""
