"""No file is flushed to disk in these tests."""

from tests.fakes.disk import disable_fsync

__all__ = ["disable_fsync"]
