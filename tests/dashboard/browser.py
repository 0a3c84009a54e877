"""A headless Chromium, driven over its own debugging protocol: opened pages, asked questions, pictures."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 800


def program() -> str:
    """Return the browser's program; skips the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: sudo apt install chromium")
    return found


@dataclass
class Tab:
    """One page. `asked`: the addresses it requested."""

    socket: aiohttp.ClientWebSocketResponse
    asked: list[str] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; notes what happens meanwhile."""
        number = next(self._numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        while True:
            told = await self.socket.receive_json(timeout=30)
            if told.get("method") == "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])
            if told.get("id") == number:
                assert "error" not in told, told
                found: dict[str, Any] = told["result"]
                return found

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.call("Network.enable")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("Page.navigate", url=url)

    async def narrow(self, width: int) -> None:
        """Make the window so wide, as high as a page can be."""
        size = {"width": width, "height": 2_400, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        told = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true."""
        async with asyncio.timeout(40):
            while not await self.ask(script):
                await asyncio.sleep(0.1)

    async def picture(self, path: Path) -> None:
        """Write what is seen as PNG."""
        told = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(told["data"]))


@contextlib.asynccontextmanager
async def tab() -> AsyncIterator[Tab]:
    """Start a browser and yield its only page."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [
            program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}", "--no-proxy-server",
            f"--window-size={WIDTH},{HEIGHT}", "--hide-scrollbars", "about:blank",
        ]  # fmt: skip
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stderr=pipe, stdout=asyncio.subprocess.DEVNULL)
        try:
            port = await asyncio.wait_for(_port(process), 30)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [one for one in await answer.json() if one["type"] == "page"]
                async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Tab(socket)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    async for line in process.stderr:
        if b"DevTools listening on" in line:
            return int(line.decode().rsplit(":", 1)[1].partition("/")[0])
    raise AssertionError("the browser ended before it was ready")
