"""A real browser, driven over HTTP by its driver; needs nothing but these two programs."""

import json
import shutil
import subprocess
from base64 import b64decode
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE = 120.0
"""How many seconds an answer may take."""


class Browser:
    """A session of a browser."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}/session"
        wanted = {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": OPTIONS},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        found = self.ask("", {"capabilities": {"alwaysMatch": wanted}})
        self.address += f"/{found['sessionId']}"

    def ask(self, what, given=None, method="POST"):
        """The answer of the driver."""
        data = json.dumps(given or {}).encode()
        request = Request(self.address + what, data if method == "POST" else None, method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def devtools(self, command, **given):
        """Call a command of the developer tools."""
        return self.ask("/goog/cdp/execute", {"cmd": command, "params": given})

    def open(self, path, width, dark=False):
        """Show a file in a window of this width, and return what was logged meanwhile."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("/url", {"url": path.as_uri()})
        return self.ask("/se/log", {"type": "browser"})

    def run(self, script):
        """What a script returns."""
        return self.ask("/execute/sync", {"script": script, "args": []})

    def picture(self, path):
        """Write a picture of the whole page."""
        taken = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(b64decode(taken["data"]))


@contextmanager
def a_browser():
    """A session, which ends with its driver."""
    driver = subprocess.Popen(
        [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        line = next(line for line in driver.stdout if "on port" in line and "successfully" in line)
        browser = Browser(int(line.rpartition("on port ")[2].strip(" .\n")))
        try:
            yield browser
        finally:
            browser.ask("", method="DELETE")
    finally:
        driver.terminate()
        driver.wait(PATIENCE)
        driver.stdout.close()
