"""Headless Chromium over its DevTools protocol: pages opened, keys and clicks given, all it says
and asks for observed. Tests that use `browser` skip where no Chromium is installed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Page", "browser"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_KEYS = {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27,
    "Home": 36, "End": 35, "Tab": 9, " ": 32, "Backspace": 8,
}  # fmt: skip


class Socket:
    """The few frames of a websocket that the protocol needs (RFC 6455, text only)."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._line = socket.create_connection((host, port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self._line.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._line.recv(1)
        assert b" 101 " in head, head

    def send(self, text: str) -> None:
        """One text frame, masked as a client has to."""
        data = text.encode()
        size = len(data)
        head = struct.pack("!B", 0x81)
        if size < 126:
            head += struct.pack("!B", 0x80 | size)
        elif size < 1 << 16:
            head += struct.pack("!BH", 0x80 | 126, size)
        else:
            head += struct.pack("!BQ", 0x80 | 127, size)
        mask = os.urandom(4)
        self._line.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self) -> str:
        """The next message, put together from its frames."""
        parts = b""
        while True:
            first, second = self._exactly(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self._exactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._exactly(8))
            data = self._exactly(size)
            if first & 0x0F in (0, 1):
                parts += data
                if first & 0x80:
                    return parts.decode()

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._line.recv(size - len(found))
            if not piece:
                raise ConnectionError("the browser closed the connection")
            found += piece
        return found

    def close(self) -> None:
        self._line.close()


class Page:
    """One page of the browser.

    Attributes:
        errors: what the console reported as an error, and exceptions nobody caught.
        requests: addresses that were asked for, apart from the page itself.
    """

    def __init__(self, port: int) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new", method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            made = json.load(answer)
        path = made["webSocketDebuggerUrl"].split("/", 3)[3]
        self._socket = Socket("127.0.0.1", port, f"/{path}")
        self._count = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser for something, and note what it reports meanwhile."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.receive())
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer)
                found: dict[str, Any] = answer["result"]
                return found
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent" and told.get("type") != "Document":
            self.requests.append(told["request"]["url"])

    def open(self, path: Path, fragment: str = "", size: tuple[int, int] = (1280, 800)) -> Page:
        """Open a file and wait until it is there."""
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip
        self.call("Page.navigate", url=path.as_uri() + fragment)
        self.until("document.readyState === 'complete' && !!document.querySelector('.tools')")
        return self

    def value(self, script: str) -> Any:
        """The value of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def key(self, *keys: str, shift: bool = False) -> None:
        """Press keys, one after the other: names such as "ArrowRight", or characters."""
        for key in keys:
            letter = len(key) == 1 and key.isalnum()
            code = ord(key.upper()) if letter else _KEYS.get(key, 0)
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            facts: dict[str, Any] = {
                "key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0,
            }  # fmt: skip
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
            self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def click(self, selector: str, clicks: int = 1) -> None:
        """Click into the middle of an element."""
        x, y = self.value(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=clicks
            )

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press at one place and let go at another."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        """Save what is seen as png."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="session")
def _port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    folder = tmp_path_factory.mktemp("chromium")
    process = subprocess.Popen(
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={folder}",
         "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        said = folder / "DevToolsActivePort"
        end = time.monotonic() + 60
        while not (said.exists() and said.read_text().strip()):
            assert process.poll() is None, "Chromium ended"
            assert time.monotonic() < end, "Chromium did not start"
            time.sleep(0.05)
        yield int(said.read_text().split()[0])
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def browser(_port: int) -> Iterator[Page]:
    """A page of a browser of its own for this process; the test fails where the page reports an
    error or asks for anything.
    """
    page = Page(_port)
    yield page
    page.value("0")
    page.close()
    assert page.errors == []
    assert page.requests == []
