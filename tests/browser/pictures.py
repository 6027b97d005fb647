"""Pictures of the dashboard for docs/: `estop demo` after some minutes, at 1440 and 390 pixels, in light and one in dark."""

import base64
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

# Long enough that charts have something to show, and that the demo's story is told.
LIFE_S = 240
WIDE, PHONE = (1440, 1000), (390, 844)
# A picture shows a page from its top, at most so high.
HIGH_MAX = {WIDE: 1100, PHONE: 1600}


class Demo:
    """A running `estop demo`, asked as the tests ask their house."""

    def __init__(self, binaries, send):
        self.send, self.data = send, f"http://127.0.0.1:{free_port()}"
        self.log = pathlib.Path(tempfile.mkstemp(prefix="estop-pictures-")[1])
        line = [binaries / "estop", "demo", "--no-browser", "--port", self.data.rsplit(":", 1)[1], "--admin-port", "0"]
        self.process = subprocess.Popen([str(word) for word in line], stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        end = time.monotonic() + 60
        while not (door := re.search(r"Dashboard: (http://[^/]+)/login#token=(\S+)", self.log.read_text())):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.05)
        self.admin, self.token = door.groups()

    def api(self, method, path, body=None):
        status, answer = self.send(self.admin + path, method, body, {"authorization": f"Bearer {self.token}"})
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def live(self, life_s):
        """The demo's four agents, one that a person paused, and a run that reaches its limit."""
        body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Sum up the last release."}]}
        self.send(f"{self.data}/agents/docs-writer/openai/v1/chat/completions", "POST", body)
        self.api("POST", "/api/agents", {"id": "tester"})
        run = {"agent": "tester", "run": "nightly", "issue": "acme/shop#42", "limits": {"max_tool_calls": 5}}
        self.api("POST", "/api/runs", run)
        for step in range(6):
            call = {"agent": "tester", "run": "nightly", "tool": "bash", "args": {"command": f"ls part-{step}"}}
            self.api("POST", "/api/hooks/pre-tool-use", call)
        self.api("POST", "/api/agents/docs-writer/pause")
        time.sleep(life_s)

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        os.unlink(self.log)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def shoot(binaries, drive, folder):
    """Lives for a while, then takes the pictures. `drive` has the browser."""
    life_s = float(os.environ.get("ESTOP_PICTURES_LIFE_S", LIFE_S))
    print(f"the demo lives for {life_s:.0f} s …", flush=True)
    demo = Demo(binaries, drive.House.send)
    try:
        demo.live(life_s)
        incident = "/incidents/" + demo.api("GET", "/api/incidents?agent=looper")["incidents"][0]["id"]
        # Connect has nothing but lines to copy; the rest stays below 1.5 MB.
        pages = [path.replace("stuck", "looper") for path in drive.PAGES if path != "/connect"]
        shots = [(path, WIDE, False) for path in [*pages, incident]]
        shots += [(path, PHONE, False) for path in ("/", "/agents/looper", incident)] + [("/", WIDE, True)]
        for size, dark in dict.fromkeys((size, dark) for _, size, dark in shots):
            browser = drive.Browser(demo, *size, dark).log_in(demo.token)
            try:
                for path in [path for path, *look in shots if look == [size, dark]]:
                    take(browser, path, folder / name(path, size, dark), size)
            finally:
                browser.close()
    finally:
        demo.close()
    total = sum(file.stat().st_size for file in folder.glob("dashboard-*.png"))
    print(f"{len(shots)} pictures in {folder}, {total / 1000:.0f} kB")


def name(path, size, dark):
    page = path.strip("/").split("?")[0] or "overview"
    page = re.sub(r"^agents/[^/]*", "agent", re.sub(r"^incidents/.*", "incident", page)).replace("/", "-")
    return f"dashboard-{page}{'-phone' if size == PHONE else ''}{'-dark' if dark else ''}.png"


def take(browser, path, file, size):
    browser.go(path)
    width, height = size
    high = browser.driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(max(high, height), HIGH_MAX[size]), "scale": 1}
    taken = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip, "captureBeyondViewport": True})
    file.write_bytes(base64.b64decode(taken["data"]))
