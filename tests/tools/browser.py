"""A headless Chromium that is spoken to over two pipes, by its own protocol, so that no package is needed beside it."""

import base64
import json
import os
import shutil
import subprocess
import tempfile


def executable():
    """The Chromium of this machine; None where there is none."""
    return next((found for found in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if found), None)


class Browser:
    """One page. `events` are those that came so far: (method, parameters)."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="adjoin-browser-")
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()

        def give_pipes():  # the protocol's places for them
            commands, answers = os.dup(read_commands), os.dup(write_answers)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self._process = subprocess.Popen(
            [executable(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={self._folder.name}", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_answers)
        self._buffer, self._number, self._session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def call(self, method, **parameters):
        """The result of a command; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return answer["result"]

    def _next(self):
        while b"\0" not in self._buffer:
            more = os.read(self._answers, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self._buffer += more
        text, self._buffer = self._buffer.split(b"\0", 1)
        answer = json.loads(text)
        if "method" in answer:
            self.events.append((answer["method"], answer["params"]))
        return answer

    def open(self, address, width, dark=False):
        """Opens a page in a window of this width, and returns when it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = []
        self.call("Page.navigate", url=address)
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            self._next()

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def move_to(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path):
        """All of the page as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pages(self, path):
        """The page as it is printed, a PDF."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))
