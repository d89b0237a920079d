"""Lists folders and reads files below the roots of this machine, local ones and those of object stores.

Decided here: what a path of a manifest cannot do. No link and no device is followed, no file is larger
than 16 MiB, no error quotes content, and endpoints and credentials are those of the machine's
environment. A scan writes through the same stores, to where the command line says, without roots.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from reconciler.references import Place, UnresolvedReference, find_place, read_regular

LARGEST_BYTES = 16 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK
_CODE = re.compile(r"AWS Error ([A-Z_]+)|\((\d{3}) [A-Za-z ]+\)")
"""The part of an error of an object store that quotes no answer."""

NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
"""A partition, an offset or a batch: without a sign and leading zeros."""


class PositionUnreadable(Exception):
    """Why a position is not known, as a sentence fragment without a full stop."""


def open_files(text: str, environment: Mapping[str, str], *, limit_s: float) -> "Files":
    """Return the files at a place that a manifest names. Raises PositionUnreadable.

    `limit_s`: seconds for each request to an object store.
    """
    try:
        place, root = find_place(text, environment)
    except UnresolvedReference as error:
        raise PositionUnreadable(str(error)) from None
    if place.scheme == "file":
        return _LocalFiles("/" + "/".join(root.segments), place.segments[len(root.segments) :])
    try:
        return open_store(place, environment, limit_s=limit_s)
    except OSError as error:
        raise _unreadable((), str(error)) from None


def open_store(place: Place, environment: Mapping[str, str], *, limit_s: float) -> "StoredFiles":
    """Return a folder of an object store, whatever the roots are. Raises OSError; `limit_s`: as of `open_files`."""
    return StoredFiles(_connect(place, environment, limit_s), place.segments)


@dataclass(frozen=True, slots=True)
class _LocalFiles:
    """A folder or file of this machine. The root may be a link, nothing below it."""

    root: str
    segments: tuple[str, ...]

    def names(self, *below: str) -> Mapping[str, int]:
        """Return the files in a folder with their modification times in epoch ms; none where it is absent.

        Raises PositionUnreadable.
        """
        try:
            with ExitStack() as stack, os.scandir(self._open(stack, (*self.segments, *below))) as entries:
                return {
                    entry.name: entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                    for entry in entries
                    if entry.is_file(follow_symlinks=False)
                }
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unreadable(below, error.strerror) from None

    def read(self, *below: str) -> bytes | None:
        """Return the bytes of a file; None: there is none. Raises PositionUnreadable."""
        *folders, name = (*self.segments, *below) or (".",)
        try:
            with ExitStack() as stack:
                return read_regular(name, LARGEST_BYTES, folder=self._open(stack, folders))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(below, error.strerror) from None
        except UnresolvedReference as error:
            raise _unreadable(below, str(error)) from None

    def _open(self, stack: ExitStack, folders: Iterable[str]) -> int:
        """Open one folder after the other: a link among them leads out of the root. Raises OSError."""
        descriptor = os.open(self.root, _FOLDER)
        stack.callback(os.close, descriptor)
        for name in folders:
            descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            stack.callback(os.close, descriptor)
        return descriptor


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """A folder or object of a store, through `pyarrow.fs`. It is read as `_LocalFiles` are."""

    store: Any
    segments: tuple[str, ...]

    def names(self, *below: str) -> Mapping[str, int]:
        from pyarrow import fs

        with _of_store(partial(_unreadable, below)):
            found = self.store.get_file_info(fs.FileSelector("/".join((*self.segments, *below)), allow_not_found=True))
        files = [info for info in found if info.type is fs.FileType.File]
        return {info.base_name: (info.mtime_ns or 0) // 1_000_000 for info in files}

    def read(self, *below: str) -> bytes | None:
        from pyarrow import fs

        path = "/".join((*self.segments, *below))
        try:
            with _of_store(partial(_unreadable, below), FileNotFoundError):
                if self.store.get_file_info(path).type is not fs.FileType.File:
                    return None
                with self.store.open_input_stream(path) as stream:
                    content: bytes = stream.read(LARGEST_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(content) > LARGEST_BYTES:
            raise _unreadable(below, "it is too large")
        return content

    def write(self, content: bytes, *below: str) -> None:
        """Put a file whole: S3 and Google show no part of it. Raises OSError without the server's text."""
        with _of_store(OSError), self.store.open_output_stream("/".join((*self.segments, *below))) as stream:
            stream.write(content)

    def remove(self, *below: str) -> None:
        """Remove a file, if there is one. Raises OSError."""
        with suppress(FileNotFoundError), _of_store(OSError, FileNotFoundError):
            self.store.delete_file("/".join((*self.segments, *below)))


Files = _LocalFiles | StoredFiles


def _connect(place: Place, environment: Mapping[str, str], limit_s: float) -> Any:
    """Return the file system of a store; all but bucket and path come from the environment. Raises OSError."""
    from datetime import timedelta

    from pyarrow import fs

    with _of_store(OSError):
        if place.scheme == "s3":
            # pyarrow takes the endpoint of a URI only, and never that of the SDK's variables.
            endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
            scheme, _, host = endpoint.rpartition("://")
            return fs.S3FileSystem(
                endpoint_override=host or None,
                scheme=scheme or "https",
                request_timeout=limit_s,
                connect_timeout=limit_s,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
            )
        if place.scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=limit_s))
        return fs.AzureFileSystem(environment.get("AZURE_STORAGE_ACCOUNT", ""))


@contextmanager
def _of_store(failed: Callable[[str], Exception], *passed: type[OSError]) -> Iterator[None]:
    """Raise what `failed` makes of a store's error, without the server's text, which may quote anything."""
    try:
        yield
    except passed:
        raise
    except Exception as error:  # noqa: BLE001 - pyarrow has an exception for each store
        match = _CODE.search(str(error))
        raise failed(f"the object store answers {match[1] or match[2]}" if match else type(error).__name__) from None


def without_repetition(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a row or an object. Raises PositionUnreadable for a name that occurs twice."""
    named = dict(fields)
    if len(named) < len(fields):
        raise PositionUnreadable("a column occurs twice")
    return named


def _unreadable(below: tuple[str, ...], reason: str | None) -> PositionUnreadable:
    return PositionUnreadable(f"{'/'.join(below)}: {reason}" if below else str(reason))
