"""A browser for tests: headless Chromium, spoken to over two pipes in the DevTools protocol (JSON, a zero byte behind each message)."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds; a sanitizer's build on a busy machine is slow


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()

        def take_pipes():  # The browser reads from 3 and writes to 4; high numbers first, so that neither is overwritten.
            a, b = os.dup2(to_read, 100), os.dup2(to_write, 101)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-extensions",
             "--disable-sync", "--mute-audio", "--hide-scrollbars", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=take_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.got, self.events, self.last_id = b"", [], 0

    def receive(self, until):
        """The next message, or None when none came by then."""
        while b"\0" not in self.got:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                return None
            piece = os.read(self.back, 1 << 20)
            assert piece, "the browser ended"
            self.got += piece
        raw, _, self.got = self.got.partition(b"\0")
        return json.loads(raw)

    def call(self, method, session=None, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(until)
            assert answer is not None, f"no answer to {method}"
            if answer.get("id") == self.last_id:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(timeout=20)
        except Exception:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()


class Tab:
    """A page in a context of its own: no cookies, no storage of others. complaints: what its console got, and what its policy refused."""

    def __init__(self, browser, url, width=1440, height=900, dark=False):
        self.browser, self.url = browser, url
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        self.target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)
        self.scheme("dark" if dark else "light")
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def js(self, expression):
        """The value of an expression, awaited. Runs past the page's policy, as the developer's console does."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression, seconds=PATIENCE):
        """Until the expression is true; returns its value."""
        until = time.monotonic() + seconds
        while True:
            value = self.js(expression)
            if value:
                return value
            assert time.monotonic() < until, f"never true: {expression}\n{self.js('document.body.innerText')}"
            time.sleep(0.05)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def key(self, name, code=0, text=""):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **more)

    def type(self, selector, text):
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def click(self, selector):
        self.js(f"document.querySelector({json.dumps(selector)}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")

    def screenshot(self, path):
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        self.js("1")  # What is on its way has come then.
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled") or event["method"] == "Log.entryAdded":
                found.append(event["params"])
        return found

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] == "Network.requestWillBeSent"]

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
