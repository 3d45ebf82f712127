"""The door to obstore: objects of a remote by name, blocking, with every error mapped once.

obstore (Rust's object_store, for Python) speaks S3, Google Cloud Storage, Azure, HTTP and WebDAV, local
folders and memory. Its blocking calls release the interpreter's lock, and work wherever a thread does, so
that nothing here depends on the event loop. What the URL does not say (credentials, region, endpoint) it
takes from `options` and then, as its own documentation says, from the environment.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from teeny_async.errors import CacheError, RequestError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "http", "https", "file", "memory")
LARGEST = 1 << 30
"""Bytes of an object; a larger one is not read."""
_LONGEST_MESSAGE = 240
_NAMED_ERROR = re.compile(r"<Code>(\w+)</Code>")
_SECRETS = re.compile(r"(?<=://)[^/@\s]*@|\?\S*")
"""User and password of a URL, and its query (a signature, a token)."""
_RETRIES = re.compile(r" in [\d.]+\w+, after \d+ retries, max_retries: .*? - ")


class RemoteTrouble(Exception):
    """The remote did not do what was asked; the text says why, on one line.

    for_good: it will not the next time either (credentials).
    """

    def __init__(self, message: str, *, for_good: bool = False) -> None:
        super().__init__(message)
        self.for_good = for_good


class _FolderRace(RemoteTrouble):
    """A folder could not be made; as a rule because it is there by now."""


class Bucket:
    """A place for objects behind a URL. Its methods block, and may be called from any number of threads.

    timeout: seconds that a request may take, connecting (at most 1.5 s of it) and one further try included.
    """

    def __init__(self, url: str, *, timeout: float, options: Mapping[str, Any]) -> None:
        scheme = urlsplit(url).scheme
        if scheme not in SCHEMES:
            known = ", ".join(f"{name}://" for name in SCHEMES)
            raise RequestError(f"a remote store is a URL that begins with one of {known}, not {location(url)!r}")
        self.location = location(url)
        self._url = url
        self._timeout = timeout
        self._options = dict(options)
        self._store: ObjectStore | None = None
        self._opening = threading.Lock()
        self._creates = True

    def open(self) -> None:
        """Load obstore and make ready; no network. Raises CacheError."""
        try:
            from obstore.store import from_url
        except ImportError:
            raise CacheError("a remote store needs obstore: pip install 'teeny_async[remote]'") from None
        with self._opening:
            if self._store is None:
                try:
                    self._store = from_url(self._url, **self._arguments())
                except Exception as error:  # noqa: BLE001  # its classes are many, and some are plain
                    raise CacheError(f"{self.location}: {_one_line(error)}") from None

    def _arguments(self) -> dict[str, Any]:
        if self._url.startswith("memory:"):
            return {}
        if self._url.startswith("file:"):
            return {"mkdir": True, **self._options}
        milliseconds = max(1, round(self._timeout * 1000))
        # A first packet that was lost, or met a full backlog, is sent again after 1 s.
        client = {"timeout": f"{milliseconds}ms", "connect_timeout": f"{min(milliseconds, 1500)}ms"}
        # Plain HTTP is what the user's URL or endpoint says; without this obstore refuses both.
        given = dict(self._options)
        endpoint = str(given.get("endpoint", given.get("aws_endpoint", self._url)))
        if endpoint.startswith("http://"):
            client["allow_http"] = "true"
        client |= given.pop("client_options", {})
        # A dropped connection is worth another try at once, a request that took long is not.
        backoff = {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(milliseconds=200)}
        retry = {"max_retries": 1, "retry_timeout": timedelta(seconds=self._timeout / 4), "backoff": backoff}
        return {"client_options": client, "retry_config": retry, **given}

    def get(self, name: str) -> bytes | None:
        """An object's content; None when there is none. Raises RemoteTrouble."""
        import obstore

        try:
            answer = obstore.get(self._opened, name)
            if answer.meta["size"] > LARGEST:
                raise RemoteTrouble(f"{name} is {answer.meta['size']} bytes, which no entry is")
            return bytes(answer.bytes())
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001  # any of them is the remote's trouble, and told as such
            raise _trouble(error) from None

    def put(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        """Write an object, whole or not at all. Raises RemoteTrouble.

        replace: over one that is there. Otherwise the first one stays, and the answer is False; plain HTTP
        has no such request, and there the last one stays.
        """
        for tries_left in reversed(range(name.count("/") + 3)):
            creates = self._creates and not replace
            try:
                return self._put(name, data, "create" if creates else "overwrite")
            except NotImplementedError:
                if not creates:
                    raise RemoteTrouble("it cannot be written to", for_good=True) from None
                self._creates = False
            except _FolderRace:
                # Another writer made the same WebDAV folder first; it is one level less to make now.
                if not tries_left:
                    raise
        raise RemoteTrouble(f"{name} could not be written")

    def _put(self, name: str, data: bytes, mode: Literal["create", "overwrite"]) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            obstore.put(self._opened, name, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except NotImplementedError:
            raise
        except Exception as error:  # noqa: BLE001  # any of them is the remote's trouble, and told as such
            if "MKCOL" in str(error):
                raise _FolderRace(_one_line(error)) from None
            raise _trouble(error) from None
        return True

    def delete(self, name: str) -> None:
        """Remove an object, if it is there. Raises RemoteTrouble."""
        import obstore

        try:
            obstore.delete(self._opened, name)
        except FileNotFoundError:
            pass
        except Exception as error:  # noqa: BLE001  # any of them is the remote's trouble, and told as such
            raise _trouble(error) from None

    @property
    def _opened(self) -> ObjectStore:
        assert self._store is not None, "open it first"
        return self._store


def location(url: str) -> str:
    """A URL for people: without user, password and query, which may be secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _trouble(error: Exception) -> RemoteTrouble:
    if isinstance(error, RemoteTrouble):
        return error
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    return RemoteTrouble(_one_line(error), for_good=isinstance(error, PermissionDeniedError | UnauthenticatedError))


def _one_line(error: Exception) -> str:
    """The first line of obstore's message, without its debug print and secrets, and the server's word for it."""
    text = str(error)
    code = _NAMED_ERROR.search(text)
    first = text.splitlines()[0].strip() if text else type(error).__name__
    first = _RETRIES.sub(": ", _SECRETS.sub("", first))[:_LONGEST_MESSAGE]
    return f"{first} ({code[1]})" if code and code[1] not in first else first
