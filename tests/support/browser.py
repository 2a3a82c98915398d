"""A real browser for tests of pages: headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--remote-debugging-port=0",
        "about:blank",
    ),
)


class Page:
    """One tab of a headless browser."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, count(1)
        self.requested: list[str] = []
        self.faults: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._command(f"{domain}.enable")

    def _command(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.faults.append(json.dumps(message["params"])[:500])
            case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                self.faults.append(message["params"]["entry"]["text"] + " " + message["params"]["entry"].get("url", ""))

    def open(self, url: str) -> None:
        self._command("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        answer = self._command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def type(self, text: str) -> None:
        self.value("document.getElementById('editor').value = ''; document.getElementById('editor').focus();")
        self._command("Input.insertText", text=text)

    def ctrl_enter(self) -> None:
        for kind in ("keyDown", "keyUp"):
            self._command(
                "Input.dispatchKeyEvent", type=kind, modifiers=2, key="Enter", code="Enter", windowsVirtualKeyCode=13
            )

    def screenshot(self) -> str:
        return str(self._command("Page.captureScreenshot")["data"])


@contextmanager
def open_browser(profile: Path, eventually: Any) -> Iterator[Page]:
    """A fresh browser with one empty tab; `eventually` is the fixture of conftest.py."""
    import httpx
    from websockets.sync.client import connect

    browser = subprocess.Popen(
        [str(CHROMIUM), f"--user-data-dir={profile}", *FLAGS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        port_file = profile / "DevToolsActivePort"
        eventually(
            lambda: port_file.exists() and port_file.read_text().count("\n") >= 1,
            timeout_s=120,
            what="Chromium opens its DevTools port",
        )
        port = int(port_file.read_text().split()[0])
        tabs = httpx.get(f"http://127.0.0.1:{port}/json", trust_env=False).json()
        target = next(tab for tab in tabs if tab["type"] == "page")
        with connect(target["webSocketDebuggerUrl"], max_size=1 << 24) as socket:
            yield Page(socket)
    finally:
        browser.kill()
        browser.wait(60)
