"""Servers on loopback for a remote store: S3, WebDAV, and some that behave badly."""

from __future__ import annotations

import contextlib
import http.server
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

S3_OPTIONS = {"access_key_id": "someone", "secret_access_key": "secret", "region": "us-east-1"}


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """A server of the S3 API with the bucket "kernels": its endpoint, and what stops it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    # boto looks for the user's own settings unless it is told where there are none.
    with mock.patch.dict("os.environ", {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}):
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id="someone",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
    with contextlib.closing(client), contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
        client.create_bucket(Bucket="kernels")
    stopped: list[bool] = []

    def stop() -> None:
        if not stopped:
            stopped.append(True)
            server.stop()

    try:
        yield endpoint, stop
    finally:
        stop()


@contextlib.contextmanager
def webdav_server(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A WebDAV server for a folder: its URL, and what stops it."""
    from cheroot import wsgi
    from wsgidav.wsgidav_app import WsgiDAVApp

    folder.mkdir(parents=True, exist_ok=True)
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(folder)},
            "simple_dc": {"user_mapping": {"*": True}},
            "verbose": 0,
            "logging": {"enable": False},
            "property_manager": None,
            "lock_storage": None,
        }
    )
    server = wsgi.Server(("127.0.0.1", 0), app, request_queue_size=128)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    stopped: list[bool] = []

    def stop() -> None:
        if not stopped:
            stopped.append(True)
            server.stop()
            thread.join()

    try:
        yield f"http://127.0.0.1:{server.bind_addr[1]}", stop
    finally:
        stop()


class Silent:
    """It accepts and never answers. connections: how many have come."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def connections(self) -> int:
        return len(self._held)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._held.append(self._listener.accept()[0])

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for held in (*self._held, self._listener):
            held.close()


class Answering:
    """An HTTP server that gives each request (method, path, body) to a function: (status, body)."""

    def __init__(self, answer: Callable[[str, str, bytes], tuple[int, bytes]]) -> None:
        self.requests: list[tuple[str, str]] = []
        requests = self.requests

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle_one_request()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                requests.append((self.command, self.path))
                status, data = answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                self.send_header("ETag", '"0"')
                self.end_headers()
                self.wfile.write(data)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self._answer
                raise AttributeError(name)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def plain_files() -> tuple[dict[str, bytes], Callable[[str, str, bytes], tuple[int, bytes]]]:
    """Files by path, and the answers of a server of PUT, GET and DELETE for them."""
    files: dict[str, bytes] = {}

    def answer(method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if method == "PUT":
            files[path] = body
            return 201, b""
        if method == "DELETE":
            return (204, b"") if files.pop(path, None) is not None else (404, b"")
        return (200, files[path]) if path in files else (404, b"")

    return files, answer
