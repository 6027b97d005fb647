"""The tests of the dashboard. Each function `ui_…`, `ks_…` gets a house (estop and a fake model) and a browser."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

import pictures
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

TOKEN = "browser-test-token"
WITHIN_S = 20
PAGES = ["/", "/agents/stuck", "/agents/stuck/requests", "/incidents", "/needs-human", "/alerts", "/spend", "/journal", "/connect", "/settings"]


class House:
    """A running estop and a fake model."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.processes = binaries, folder, []
        model = self.start([binaries / "estop-fake-model"], "model.log")
        self.model = self.said(model, "model.log", r"listening on (\S+)")
        config = {
            "listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"},
            "providers": {"openai": {"base_url": self.model}},
            "policy": {"kill_switch_enabled": True},
        }
        (folder / "estop.yaml").write_text(json.dumps(config))
        self.open()

    def open(self):
        command = [self.binaries / "estop", "serve", "--config", "estop.yaml", "--data-dir", "data"]
        self.estop = self.start(command, "estop.log")
        self.data = self.said(self.estop, "estop.log", r"listening on (\S+)")
        self.admin = self.said(self.estop, "estop.log", r"Admin API: (\S+?)/api/docs")

    def open_again(self):
        """Stops estop and starts it on the same ports."""
        self.estop.terminate()
        self.estop.wait(WITHIN_S)
        config = json.loads((self.folder / "estop.yaml").read_text())
        config["listen"] = {"data": self.data.split("//")[1], "admin": self.admin.split("//")[1]}
        (self.folder / "estop.yaml").write_text(json.dumps(config))
        self.open()

    def start(self, command, log):
        out = open(self.folder / log, "wb")
        environment = dict(os.environ, ESTOP_ADMIN_TOKEN=TOKEN)
        process = subprocess.Popen([str(part) for part in command], cwd=self.folder, stdout=out, stderr=out, env=environment)
        self.processes.append(process)
        return process

    def said(self, process, log, pattern):
        def found():
            if process.poll() is not None:
                raise RuntimeError(f"{log}: {(self.folder / log).read_text()}")
            match = re.search(pattern, (self.folder / log).read_text())
            return match and match.group(1)
        return until(found, f"{log} says {pattern}")

    def ask(self, agent, text, model="fake", stream=False):
        body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": text}]}
        return self.send(f"{self.data}/agents/{agent}/openai/v1/chat/completions", "POST", body)[0]

    def stream(self, agent):
        """A stream that does not end by itself; the process that reads it."""
        body = json.dumps({"model": "fake-endless", "stream": True, "messages": [{"role": "user", "content": "tell"}]})
        url = f"{self.data}/agents/{agent}/openai/v1/chat/completions"
        command = ["curl", "-sN", "-H", "content-type: application/json", "-d", body, url]
        process = subprocess.Popen(command, stdout=open(self.folder / "stream.out", "wb"), stderr=subprocess.DEVNULL)
        self.processes.append(process)
        until(lambda: (self.folder / "stream.out").stat().st_size > 0, "the stream begins")
        return process

    def api(self, method, path, body=None, token=TOKEN):
        return self.send(self.admin + path, method, body, {"authorization": f"Bearer {token}"})

    @staticmethod
    def send(url, method, body, headers=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers={"content-type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def loop(self, agent="stuck"):
        """Has an agent loop until it is stopped."""
        for _ in range(30):
            if self.ask(agent, "Is the build done?") != 200:
                until(lambda: self.api("GET", f"/api/incidents?agent={agent}")[1]["incidents"], "the incident is stored")
                return
        raise AssertionError("the loop was not stopped")

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()


def click(element, by_driver=WebElement.click):
    """The driver scrolls what it clicks to the edge, where the bar on top covers it: it is brought to the middle first."""
    element.parent.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    by_driver(element)


WebElement.click = click


class Browser:
    """A Chromium with a person in front of it."""

    def __init__(self, house, width=1440, height=1000, dark=False):
        options = Options()
        options.binary_location = shutil.which("chromium")
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
        for argument in arguments + (["--blink-settings=preferredColorScheme=0"] if dark else []):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.house = house
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_page_load_timeout(WITHIN_S)
        if width < 500:
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def go(self, path):
        self.driver.get(self.house.admin + path)
        return self

    def log_in(self, token=TOKEN):
        self.go("/login")
        self.one("#token").send_keys(token)
        self.one("button[type=submit]").click()
        until(lambda: self.path() != "/login", "logged in")
        return self

    def path(self):
        return re.sub(r"^https?://[^/]+", "", self.driver.current_url)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector="body"):
        return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def sees(self, text, selector="body"):
        until(lambda: text in self.text(selector), f"{text!r} in {selector}: {self.text(selector)[:500]!r}")

    def button(self, label, within="body"):
        for button in self.one(within).find_elements(By.CSS_SELECTOR, "button, a.button"):
            if button.text.strip() == label:
                return button
        raise AssertionError(f"no button {label!r}: {[b.text for b in self.all('button')]}")

    def press(self, label, within="body", answer=None):
        self.button(label, within).click()
        if answer is not None:
            alert = until(lambda: self.alert(), "a question")
            alert.accept() if answer else alert.dismiss()

    def alert(self):
        with contextlib.suppress(Exception):
            return self.driver.switch_to.alert
        return None

    def hold(self, seconds, selector="[data-hold]"):
        ActionChains(self.driver).click_and_hold(self.one(selector)).pause(seconds).release().perform()

    def complaints(self):
        """What the browser complains about: scripts that failed, policies that were broken."""
        known = ("Password forms should have", "favicon")
        entries = self.driver.get_log("browser")
        return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING") and not any(k in e["message"] for k in known)]

    def close(self):
        self.driver.quit()


def until(found, what, within_s=WITHIN_S):
    """Waits for something; gives it."""
    end = time.monotonic() + within_s
    while True:
        with contextlib.suppress(StaleElementReferenceException):
            value = found()
            if value:
                return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.05)


# ---- the tests ----------------------------------------------------------------------------------------------------


def ui_1_every_page_without_data_says_what_to_do_next(house, browser, _):
    browser.log_in()
    for path in [page for page in PAGES if "stuck" not in page]:
        browser.go(path)
        assert browser.one("#content").text.strip(), path
        assert browser.one("nav [aria-current=page]").is_displayed(), path
    browser.go("/")
    browser.sees("No agent has called yet")
    browser.go("/incidents").sees("No unresolved incident")
    browser.go("/needs-human").sees("Nothing needs a human")
    assert browser.complaints() == [], browser.complaints()


def ui_1_every_page_with_data(house, browser, _):
    house.loop()
    house.ask("coder", "Write a parser.")
    browser.log_in()
    for path in PAGES:
        browser.go(path)
        wide = browser.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{path} scrolls sideways by {wide}"
    browser.go("/").sees("Deactivated by Kill Switch", "#agent-stuck")
    browser.go("/agents/stuck").sees("by loop", "section:has(#requests)")
    browser.one("section:has(#requests) p a").click()
    browser.sees("answered", "table.cards")
    browser.go("/incidents")
    browser.one("#content td.name a").click()
    browser.sees("similar prompts")
    browser.sees("Steps up to the stop")
    browser.sees("repeats:", "ol.steps")
    browser.sees("Two of the repeats, side by side")
    assert browser.complaints() == [], browser.complaints()


def ui_1_on_a_phone_the_page_one_is_on_is_in_sight(house, browser, _):
    phone = Browser(house, width=390, height=844).log_in()
    try:
        for path in ["/", "/alerts", "/settings"]:
            phone.go(path)
            inside = """const [a, n] = ['nav [aria-current]', 'nav ul'].map(s => document.querySelector(s).getBoundingClientRect());
                return a.left >= n.left - 1 && a.right <= n.right + 1"""
            until(lambda: phone.driver.execute_script(inside), f"{path} in sight")
    finally:
        phone.close()


def ui_1_strangers_see_only_the_login(house, browser, _):
    for path in PAGES + ["/journal?agent=a"]:
        browser.go(path)
        assert browser.path().startswith("/login"), browser.path()
    browser.one("#token").send_keys("wrong")
    browser.one("button[type=submit]").click()
    browser.sees("token", "#says")
    browser.go("/login?next=//evil.example/")
    browser.one("#token").send_keys(TOKEN)
    browser.one("button[type=submit]").click()
    until(lambda: browser.path() == "/", "an own page")


def ui_1_the_kill_switch_is_set_in_the_page(house, browser, _):
    house.ask("coder", "Write a parser.")
    browser.log_in().go("/agents/coder")
    for selector, value in (("#window", "5"), ("#threshold", "3.5")):
        field = browser.one(selector)
        field.clear()
        field.send_keys(value)
    browser.one("form[data-call] input[name=enabled]").click()
    browser.press("Save")
    browser.sees("Saved.", "#says")
    _, switch = house.api("GET", "/api/agents/coder/kill-switch")
    assert (switch["enabled"], switch["window_size"], switch["threshold"]) == (False, 5, 3.5), switch
    browser.sees("only watched")
    browser.go("/agents/coder")
    browser.driver.execute_script("document.querySelector('#window').removeAttribute('max')")
    browser.one("#window").clear()
    browser.one("#window").send_keys("500")
    browser.press("Save")
    browser.sees("window_size", "#says")


def al_3_a_missing_alert_is_said(house, browser, _):
    house.ask("coder", "Write a parser.")
    browser.log_in().sees("No alerts are configured: nobody will be notified")
    browser.go("/agents/coder").sees("nobody will be notified when it is stopped")
    browser.one("#content a[href='/alerts']").click()
    browser.sees("No alerts configured", "h1 + p")
    assert "type: slack" in browser.text("#line-yaml")
    assert browser.button("Copy").is_displayed()
    assert browser.complaints() == [], browser.complaints()
    with with_receiver(house):
        browser.go("/alerts").sees("Somebody is notified", "h1 + p")
        assert "nobody will be notified" not in browser.go("/").text()
        assert "nobody will be notified" not in browser.go("/agents/coder").text()


def al_1_a_channel_is_tested_by_a_click(house, browser, _):
    with with_receiver(house) as receiver:
        browser.log_in().go("/alerts").sees("not tried yet", "#channel-own")
        browser.driver.execute_script("window.same = true")
        browser.press("Test", "#channel-own")
        browser.sees("A test is on its way to own", "#says")
        browser.sees("works", "#channel-own")
        browser.sees("This is a test: estop can reach you here")
        assert browser.driver.execute_script("return window.same"), "without a reload"
        assert receiver.got, "it arrived"
        receiver.status = 404
        browser.press("Test", "#channel-own")
        browser.sees("fails", "#channel-own")
        browser.sees("404", "#channel-own")
        browser.sees("failed, tried again")
        browser.go("/alerts").sees("1", "nav a[href='/alerts'] .count")
        browser.go("/alerts?channel=nobody").sees("Nothing was sent to nobody yet.")


def al_1_alerts_are_muted_and_rules_switched_off(house, browser, axe):
    with with_receiver(house, rules={"stops": {"types": ["kill_switch"], "channels": ["own"]}}):
        browser.log_in().go("/alerts").sees("in force", "table.cards:has([aria-label='Switch off stops'])")
        browser.press("Switch off")
        browser.sees("No rule is in force: every channel receives every alert except checkpoints.")
        browser.press("Delete", answer=True)
        browser.sees("in force", "#rules ~ .scroll")
        browser.press("Switch off")
        browser.sees("No rule is in force")
        browser.press("Switch on")
        browser.sees("Switched on: the file decides again.", "#says")
        browser.sees("in force", "#rules ~ .scroll")
        assert [rule["origin"] for rule in house.api("GET", "/api/alerts/rules")[1]["rules"]] == ["file"], "no copy of it is kept"
        # As if somebody else had changed it between a look and a click.
        browser.driver.execute_script("const b = document.querySelector('[aria-label=\"Switch off stops\"]'); b.dataset.match = '\"7\"'; b.click()")
        browser.sees("Somebody else changed this meanwhile. Nothing was done", "#says")
        assert house.api("GET", "/api/alerts/rules/stops")[1]["in_force"]
        assert len([c for c in browser.complaints() if "412" in c]) == 1
        browser.go("/alerts")
        browser.one("#mute-more summary").click()
        browser.one("#mute-minutes").clear()
        browser.one("#mute-minutes").send_keys("120")
        browser.one("#mute-why").send_keys("a known <b>problem</b>")
        browser.one("#mute-agents").send_keys("coder, tester")
        browser.one("#mute-form input[value=kill_switch]").click()
        browser.press("Mute", "#mute-form")
        browser.sees("Muted.", "#says")
        browser.sees("kill switch of coder, tester", "#mutes ~ .scroll")
        browser.sees("a known <b>problem</b>", "#mutes ~ .scroll")
        _, found = house.api("GET", "/api/alerts/mutes")
        assert (found["mutes"][0]["types"], found["mutes"][0]["agents"]) == (["kill_switch"], ["coder", "tester"]), found
        browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
        seen = browser.driver.execute_async_script("axe.run().then(arguments[0])")
        serious = [v["id"] for v in seen["violations"] if v["impact"] in ("serious", "critical")]
        assert serious == [], serious
        browser.press("Unmute")
        browser.sees("Nothing is muted.")
        assert browser.complaints() == [], browser.complaints()


@contextlib.contextmanager
def with_receiver(house, rules=None):
    """A receiver on this machine, and estop with a channel to it."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            receiver.got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.got, receiver.status = [], 200
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    config = json.loads((house.folder / "estop.yaml").read_text())
    channel = {"type": "webhook", "url": f"http://127.0.0.1:{receiver.server_port}/", "allow_loopback": True}
    config["alerts"] = {"channels": {"own": channel}, "rules": rules or {}}
    (house.folder / "estop.yaml").write_text(json.dumps(config))
    house.open_again()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()


def ks_6_holding_the_button_stops_running_streams(house, browser, _):
    stream = house.stream("talker")
    browser.log_in()
    browser.sees("talker")
    browser.driver.execute_script("window.same = true")
    browser.hold(0.4)
    time.sleep(0.5)
    assert stream.poll() is None and "RUNNING" in browser.text(".state"), "a short press does nothing"
    browser.hold(1.3)
    browser.sees("SHUTDOWN", ".state")
    browser.sees("Everything is stopped (1 model call,", "#says")
    assert browser.driver.execute_script("return window.same"), "without a reload"
    until(lambda: stream.poll() is not None, "the stream ends")
    assert house.ask("other", "hello") != 200
    browser.press("Unlock, step 1: safe mode", answer=False)
    browser.sees("SHUTDOWN", ".state")
    browser.press("Unlock, step 1: safe mode", answer=True)
    browser.sees("SAFE MODE", ".state")
    browser.press("Unlock, step 2: resume all agents", answer=True)
    browser.sees("RUNNING", ".state")
    assert house.ask("other", "hello") == 200


def ks_6_the_button_works_by_keyboard_and_with_a_channel(house, browser, _):
    browser.log_in()
    browser.one("[data-opens=stop-dialog]").send_keys(Keys.ENTER)
    Select(until(lambda: browser.one("#stop-reason"), "the dialog")).select_by_value("security_incident")
    browser.one("#stop-note").send_keys("a <b>strange</b> key")
    browser.one("input[name=channels][value=messaging]").click()
    button = browser.one("#stop-dialog [data-hold]")
    browser.driver.execute_script("arguments[0].focus()", button)
    ActionChains(browser.driver).key_down(Keys.SPACE).pause(1.3).key_up(Keys.SPACE).perform()
    browser.sees("NOT EVERYTHING", ".state")
    browser.sees("security incident, a <b>strange</b> key", ".banner")
    _, status = house.api("GET", "/api/emergency/status")
    assert status["llmEnabled"] and not status["messagingEnabled"], status


def ui_1_a_viewer_looks_and_cannot_act(house, browser, _):
    house.loop()
    _, made = house.api("POST", "/api/tokens", {"name": "looker", "role": "viewer"})
    browser.log_in(made["token"])
    for path in PAGES:
        browser.go(path)
        acting = browser.all("[data-hold], [data-call]:not([data-call^='DELETE /api/session'])")
        assert acting == [], f"{path}: {[a.get_attribute('outerHTML')[:90] for a in acting]}"
    script = """const csrf = sessionStorage.getItem('estop-csrf');
        const done = arguments[0];
        fetch('/api/emergency/kill', {method: 'POST', headers: {'x-estop-csrf': csrf}}).then(a => done(a.status))"""
    assert browser.driver.execute_async_script(script) == 403
    assert house.api("GET", "/api/emergency/status")[1]["state"] == "running"


def se_2_a_tab_without_the_secret_looks_asks_the_others_and_can_log_in(house, browser, _):
    """The cookie alone lets a page look: the second secret is in the storage of a tab, and only the login answers it."""
    house.loop()
    browser.log_in().go("/agents/stuck").sees("Deactivated by Kill Switch")
    driver, first = browser.driver, browser.driver.current_window_handle
    assert driver.execute_script("return sessionStorage.getItem('estop-csrf')"), "the login keeps it in the tab"
    assert driver.execute_script("return document.documentElement.outerHTML.includes(sessionStorage.getItem('estop-csrf'))") is False
    driver.switch_to.new_window("tab")
    browser.go("/agents/stuck").sees("Deactivated by Kill Switch")
    until(lambda: driver.execute_script("return sessionStorage.getItem('estop-csrf')"), "the first tab tells the second")
    assert not driver.execute_script("return document.body.classList.contains('is-read-only')")
    second = driver.current_window_handle
    driver.switch_to.window(first)
    driver.execute_script("sessionStorage.removeItem('estop-csrf')")
    driver.switch_to.window(second)
    driver.execute_script("sessionStorage.removeItem('estop-csrf')")
    browser.go("/agents/stuck")
    until(lambda: driver.execute_script("return document.body.classList.contains('is-read-only')"), "it says that it only looks")
    browser.sees("This tab is view-only", ".read-only")
    browser.press("Reactivate", answer=True)
    browser.sees("cookie alone lets you look", "#says")
    browser.one("#log-in-here").click()
    until(lambda: browser.path().startswith("/login"), "the way to the login")
    browser.one("#token").send_keys(TOKEN)
    browser.one("form button").click()
    until(lambda: browser.path() == "/agents/stuck", "back where one was")
    browser.press("Reactivate", answer=True)
    browser.sees("Active", ".head .badge")


def se_2_sessions_are_shown_and_ended(house, browser, _):
    _, made = house.api("POST", "/api/tokens", {"name": "looker", "role": "viewer"})
    other = Browser(house).log_in(made["token"])
    try:
        browser.log_in().go("/settings").sees("looker", "[aria-labelledby=sessions]")
        browser.press("End", answer=True)
        until(lambda: "looker" not in browser.one("[aria-labelledby=sessions]").text, "it is gone from the list")
        other.go("/spend")
        until(lambda: other.path().startswith("/login"), "the ended session")
    finally:
        other.close()


def ui_1_two_tabs_stay_in_step(house, browser, _):
    house.loop()
    browser.log_in().go("/agents/stuck").sees("Deactivated by Kill Switch")
    other = Browser(house).log_in().go("/agents/stuck")
    try:
        other.driver.execute_script("window.same = true")
        browser.press("Reactivate", answer=True)
        other.sees("Active", ".head .badge")
        browser.sees("Active", ".head .badge")
        assert other.driver.execute_script("return window.same")
    finally:
        other.close()


def ui_1_the_page_comes_back_after_a_restart(house, browser, _):
    browser.log_in()
    browser.driver.execute_script("window.same = true")
    house.open_again()
    house.ask("newcomer", "hello")
    browser.sees("newcomer")
    until(lambda: "is-offline" not in browser.one("body").get_attribute("class"), "it says that estop is back")
    assert browser.driver.execute_script("return window.same"), "without a reload"


def ui_1_what_is_typed_survives_a_refresh(house, browser, _):
    house.ask("coder", "one")
    browser.log_in().go("/agents/coder")
    field = browser.one("#threshold")
    field.clear()
    field.send_keys("7.5")
    browser.one("#window").click()
    before = browser.text("#events")
    house.api("POST", "/api/agents/coder/pause")
    browser.sees("Paused", ".head .badge")
    assert browser.one("#threshold").get_attribute("value") == "7.5", before


def ui_1_nothing_from_outside_runs_as_script(house, browser, _):
    shots = xss_corpus()
    for number, text in enumerate(shots):
        house.api("PATCH", "/api/escalations/none", {"note": text})
        house.send(f"{house.data}/agents/coder/openai/v1/chat/completions", "POST",
                   {"model": text, "messages": [{"role": "user", "content": text}]}, {"x-estop-run": f"r{number % 40}", "x-estop-issue": re.sub(r"[^ -~]", "", text)[:60]})
    house.api("POST", "/api/emergency/kill", {"reason": "manual", "note": "".join(shots)[:480], "channels": ["messaging"]})
    house.loop("stuck")
    _, found = house.api("GET", "/api/incidents")
    house.api("PATCH", f"/api/incidents/{found['incidents'][0]['id']}", {"note": "\n".join(shots)[:4000]})
    browser.log_in()
    for path in PAGES + ["/agents/coder", f"/incidents/{found['incidents'][0]['id']}", "/spend?by=model", "/spend?by=issue",
                         "/journal?agent=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", "/?find=%3Cimg%20src=x%20onerror=alert(1)%3E"]:
        browser.go(path)
        assert browser.alert() is None, path
        assert browser.driver.execute_script("return window.hacked") is None, path
        assert browser.driver.execute_script("return document.querySelectorAll('script:not([src])').length") == 0, path
    complaints = [c for c in browser.complaints() if "404" not in c]
    assert complaints == [], complaints


def ui_1_axe_finds_nothing_serious(house, browser, axe):
    house.loop()
    browser.log_in()
    for path in PAGES:
        browser.go(path)
        axe_finds_nothing(browser, axe)


def axe_finds_nothing(browser, axe):
    # By the debugger: the page's own policy lets no foreign script in.
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    found = browser.driver.execute_async_script("axe.run().then(arguments[0])")
    serious = [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert serious == [], f"{browser.path()}: {serious}"


def watched_loop(house, agent="watched", tool="get_build"):
    """An agent whose loops are only watched calls a tool again and again; the record of the stop that was not made."""
    house.api("POST", "/api/agents", {"id": agent})
    house.api("PATCH", f"/api/agents/{agent}/kill-switch", {"enabled": False})
    messages = [{"role": "user", "content": "Wait for the build."}]
    for number in range(8):
        body = {"model": "fake", "messages": messages}
        house.send(f"{house.data}/agents/{agent}/openai/v1/chat/completions", "POST", body)
        call = {"id": f"call_{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps({"id": 7})}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "pending"})
    events = lambda: house.api("GET", f"/api/events?agent={agent}&type=would_have_stopped&guard=loop")[1]["events"]
    seq = until(events, "it would have been stopped")[0]["seq"]
    until(lambda: house.api("GET", f"/api/events/{seq}/evidence")[1]["steps"], "its steps are kept")
    return seq


def ev_1_what_was_only_watched_has_a_page_with_its_steps_and_is_muted(house, desktop, axe):
    seq = watched_loop(house)
    phone = Browser(house, 390, 844)
    try:
        for browser in (desktop, phone):
            browser.log_in().go("/journal?agent=watched&guard=loop&sort=oldest")
            wide = "return document.documentElement.scrollWidth - innerWidth"
            assert browser.driver.execute_script(wide) <= 0, "the journal scrolls sideways"
            axe_finds_nothing(browser, axe)
            assert Select(browser.one("#guard")).first_selected_option.text == "loop"
            browser.one("#content td.name a").click()
            until(lambda: browser.path() == f"/events/{seq}", "the row leads to the steps")
            browser.sees("would have been stopped by the guard loop")
            browser.sees("get_build returned", "ol.steps")
            browser.sees("Mute this pattern")
            assert browser.driver.execute_script(wide) <= 0, "the event scrolls sideways"
            axe_finds_nothing(browser, axe)
            browser.press("Show effect of muting")
            browser.sees("With get_build muted it would have stopped nothing", "#effect")
            axe_finds_nothing(browser, axe)
            browser.press("Mute get_build")
            browser.sees("estop incidents unmute", "#says")
            browser.sees("do not count as repetition (exempt_tools of its policy)")
            assert house.api("GET", "/api/agents/watched/policy")[1]["overrides"]["exempt_tools"] == ["get_build"]
            browser.press("Count them again")
            browser.sees("If watched calls get_build again and again")
            assert "exempt_tools" not in house.api("GET", "/api/agents/watched/policy")[1]["overrides"]
            assert browser.complaints() == [], browser.complaints()
    finally:
        phone.close()


def ui_1_what_cannot_be_read_is_a_page(house, browser, axe):
    browser.log_in()
    for path in ("/events/abc", "/events/1", "/agents/none/requests/x", "/journal?from=x", "/?from=x"):
        browser.go(path)
        assert browser.one("h1").text and browser.one("a[href='/']"), path
        axe_finds_nothing(browser, axe)


def ui_1_keyboard_alone_reaches_everything(house, browser, _):
    house.loop()
    browser.log_in().go("/agents/stuck")
    reached = set()
    for _ in range(200):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        reached.add(browser.driver.execute_script("return document.activeElement.outerHTML.slice(0, 200)"))
    wanted = browser.driver.execute_script("""return [...document.querySelectorAll('a[href], button, input, select, textarea')]
        .filter(e => e.checkVisibility() && !e.disabled).map(e => e.outerHTML.slice(0, 200))""")
    assert set(wanted) <= reached, set(wanted) - reached


def ui_1_pages_are_light(house, browser, _):
    house.loop()
    browser.log_in()
    for path in PAGES:
        browser.go(path)
        weight = browser.driver.execute_script("""return performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
            .reduce((sum, e) => sum + (e.decodedBodySize || 0), 0)""")
        assert 0 < weight <= 200_000, f"{path}: {weight} bytes"


def type_in(browser, selector, value):
    """Clears a field and types, as a person does."""
    field = browser.one(selector)
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value or Keys.DELETE)


def repeated(house, agent="coder", times=4):
    """An agent that asked the same a few times, and is in the journal with it: the fourth scores 7.0."""
    for _ in range(times):
        assert house.ask(agent, "Is the build done?") == 200
    until(lambda: house.api("POST", f"/api/agents/{agent}/backtest", {})[1]["records"] >= 2 * times, "the records are stored")


def ui_1_the_effect_of_a_threshold_is_shown_before_it_is_saved(house, browser, _):
    repeated(house)
    browser.log_in().go("/agents/coder")
    assert browser.text("#effect") == ""
    type_in(browser, "#threshold", "6.5")
    browser.sees("With 6.5 it would have stopped 1 run in the last 7 days; with today's 10.0, nothing.", "#effect")
    browser.sees("Loop score 7.0, limit 6.5", "#effect")
    assert browser.one("#effect").get_attribute("aria-live") == "polite"
    type_in(browser, "#window", "5")
    browser.sees("With window 5 and 6.5", "#effect")
    type_in(browser, "#threshold", "45")
    browser.sees("it would have stopped nothing", "#effect")
    assert house.api("GET", "/api/agents/coder/kill-switch")[1]["threshold"] == 10.0, "nothing was saved"
    type_in(browser, "#threshold", "450")
    until(lambda: browser.text("#effect") == "", "a value that does not fit has no effect")
    type_in(browser, "#threshold", "6.5")
    browser.press("Show effect")
    browser.sees("With window 5 and 6.5", "#effect")
    assert browser.path() == "/agents/coder"
    browser.press("Save")
    browser.sees("Saved.", "#says")
    until(lambda: browser.text("#effect") == "", "what was said of the values before is gone")
    assert house.api("GET", "/api/agents/coder/kill-switch")[1]["threshold"] == 6.5
    # Without a script the page itself says it.
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.go("/agents/coder")
    type_in(browser, "#threshold", "8")
    browser.press("Show effect")
    until(lambda: "with today's 6.5, 1 run" in browser.one("#effect").text, "the effect without a script")
    assert browser.one("#threshold").get_attribute("value") == "8"
    assert browser.complaints() == [], browser.complaints()


def ui_1_an_incident_is_loosened_and_the_agent_let_go_or_kept_stopped(house, browser, _):
    house.loop()
    browser.log_in().go("/incidents")
    browser.one("#content td.name a").click()
    browser.sees("Raise the threshold")
    browser.sees("it would have stopped nothing in the last 7 days; with today's 10.0, 1 run", "#effect")
    least = browser.one("#threshold").get_attribute("value")
    type_in(browser, "#threshold", "10")
    browser.sees("With today's 10.0 it would have stopped 1 run", "#effect")
    type_in(browser, "#threshold", least)
    browser.press("Set threshold")
    browser.sees("The agent is still stopped", "#says")
    assert house.api("GET", "/api/agents/stuck/kill-switch")[1]["threshold"] == float(least)
    browser.sees("would already have prevented this stop")
    browser.press("Reactivate", answer=True)
    until(lambda: house.api("GET", "/api/agents/stuck")[1]["active"], "it works again")
    # Activating answers the incident: it is resolved with it.
    browser.sees("resolved", ".head .badge")
    assert browser.complaints() == [], browser.complaints()


def po_5_the_preset_is_switched_and_taken_back_for_all_and_for_one(house, browser, _):
    house.ask("coder", "Write a parser.")
    gate = lambda: house.api("GET", "/api/agents/coder/policy")[1]["effective"]["guards"]["gate"]
    browser.log_in()
    for page, says in (("/settings", "all agents"), ("/agents/coder", "coder")):
        browser.go(page).sees("Preset watch")
        browser.press("Switch to strict")
        browser.sees(f"Switch {says} to strict?", "#preset-dialog")
        browser.press("Cancel", within="#preset-dialog")
        assert gate() == "shadow"
        browser.press("Switch to strict")
        browser.press("Switch to strict", within="#preset-dialog")
        browser.sees("Preset strict")
        browser.sees("set here")
        assert gate() == "enforce"
        browser.press("Reset to the file's preset")
        browser.sees("Preset watch")
        assert gate() == "shadow"
    assert browser.complaints() == [], browser.complaints()


def ui_5_rules_are_changed_in_the_page_and_nothing_of_others_is_lost(house, browser, _):
    house.ask("coder", "Write a parser.")
    overrides = lambda: house.api("GET", "/api/agents/coder/policy")[1]["overrides"]
    browser.log_in().go("/agents/coder")
    type_in(browser, "[name='limits.max_turns']", "0")
    type_in(browser, "[name='budget.usd_per_day']", "2.5")
    browser.press("Save rules")
    browser.sees("positive whole number", "[id='wrong-limits.max_turns']")
    assert browser.one("[name='limits.max_turns']").get_attribute("aria-invalid") == "true"
    assert browser.driver.execute_script("return document.activeElement.name") == "limits.max_turns"
    assert overrides() == {}, "nothing was saved"
    type_in(browser, "[name='limits.max_turns']", "off")
    Select(browser.one("[name='guards.gate']")).select_by_visible_text("enforce")
    browser.press("Save rules")
    browser.sees("Saved.", "#says")
    assert overrides() == {"budget": {"usd_per_day": 2.5}, "guards": {"gate": "enforce"}, "limits": {"max_turns": "off"}}, overrides()
    browser.sees("set here", "[id='about-guards.gate']")
    # Somebody else is faster.
    type_in(browser, "[name='limits.max_tool_calls']", "33")
    house.api("PATCH", "/api/agents/coder/policy", {"budget": {"usd_per_day": 9}})
    time.sleep(1.5)
    browser.press("Save rules")
    browser.sees("Somebody else changed these rules meanwhile", "#rules-form")
    assert browser.one("[name='limits.max_tool_calls']").get_attribute("value") == "33", "what was typed is kept"
    assert browser.one("[name='budget.usd_per_day']").get_attribute("value") == "9", "what others wrote is seen"
    assert overrides()["budget"] == {"usd_per_day": 9} and "max_tool_calls" not in overrides()["limits"]
    browser.press("Save rules")
    until(lambda: overrides()["limits"] == {"max_turns": "off", "max_tool_calls": 33}, "it was saved over the new version")
    assert overrides()["budget"] == {"usd_per_day": 9}
    until(lambda: "meanwhile" not in browser.text("#rules-form"), "nothing is wrong any more")
    browser.one("[data-takes-back='budget.usd_per_day']").click()
    browser.sees("Reset", "#says")
    until(lambda: browser.one("[name='budget.usd_per_day']").get_attribute("value") == "", "the file's value is back: none")
    assert "budget" not in overrides()
    complaints = [c for c in browser.complaints() if " 400 " not in c and " 412 " not in c]
    assert complaints == [], complaints


def ui_1_a_key_is_made_shown_once_and_taken_back(house, browser, _):
    house.ask("coder", "Write a parser.")
    browser.log_in().go("/agents/coder").sees("No keys.")
    browser.press("Create key")
    key = until(lambda: browser.text("#secret-text"), "the new key")
    assert browser.one("#secret").is_displayed()
    keys = lambda: house.api("GET", "/api/agents/coder/keys")[1]["keys"]
    assert len(keys()) == 1 and key.startswith(keys()[0]["prefix"]), key
    assert browser.one("[data-copies=secret-text]").is_displayed()
    browser.sees(keys()[0]["prefix"], "section[aria-labelledby=keys]")
    browser.go("/agents/coder")
    assert key not in browser.driver.page_source
    press = browser.one("[data-call*='/keys/']")
    press.click()
    until(browser.alert, "a question").dismiss()
    assert len(keys()) == 1
    browser.one("[data-call*='/keys/']").click()
    until(browser.alert, "a question").accept()
    browser.sees("No keys.")
    assert keys() == []
    assert browser.complaints() == [], browser.complaints()


def ui_1_a_viewer_sees_rules_and_presets_and_cannot_change_them(house, browser, _):
    house.loop()
    house.api("POST", "/api/agents/stuck/keys")
    _, made = house.api("POST", "/api/tokens", {"name": "looker", "role": "viewer"})
    _, found = house.api("GET", "/api/incidents")
    browser.log_in(made["token"])
    for path, says in (("/agents/stuck", "Rules"), ("/settings", "Preset watch"), (f"/incidents/{found['incidents'][0]['id']}", "Steps up to the stop")):
        browser.go(path).sees(says)
        acting = browser.all("[data-rules], [data-takes-back], [data-effect], [data-opens], [data-shows], dialog, #keys")
        assert acting == [], f"{path}: {[a.get_attribute('outerHTML')[:90] for a in acting]}"
    assert house.api("PATCH", "/api/agents/stuck/policy", {"preset": "strict"}, made["token"])[0] == 403
    assert house.api("PUT", "/api/preset", {"preset": "strict"}, made["token"])[0] == 403


def ui_1_nothing_typed_into_rules_or_effects_runs_as_script(house, browser, _):
    house.loop()
    _, found = house.api("GET", "/api/incidents")
    browser.log_in().go("/agents/stuck")
    for shot in xss_corpus():
        said = browser.driver.execute_async_script("""const [shot, done] = arguments;
            const form = document.getElementById("rules-form"), field = form.elements["limits.max_turns"];
            field.value = shot;
            changeRules(form, changeOf(form), "Saved.").then(() => done(document.getElementById("wrong-limits.max_turns").innerHTML));""", shot)
        assert "<" not in said, said
        assert browser.driver.execute_script("return window.hacked") is None, shot
    for number, shot in enumerate(xss_corpus()[::8]):
        path = "/agents/stuck" if number % 2 else f"/incidents/{found['incidents'][0]['id']}"
        browser.go(f"{path}?window_size={urllib.parse.quote(shot)}&threshold={urllib.parse.quote(shot)}")
        assert browser.alert() is None, shot
        assert browser.driver.execute_script("return window.hacked") is None, shot
        assert browser.driver.execute_script("return document.querySelectorAll('script:not([src])').length") == 0, shot


def xss_corpus():
    """Two hundred ways to slip a script in; each would set window.hacked or open an alert."""
    run = "window.hacked=1"
    tags = ["img src=x onerror", "svg onload", "body onload", "details open ontoggle", "video src=x onerror", "input autofocus onfocus",
            "iframe onload", "marquee onstart", "select autofocus onfocus", "audio src=x onerror"]
    wraps = ["{}", "\"><{}", "'><{}", "--><{}", "</title><{}", "</textarea><{}", "</script><{}", "]]><{}", "`><{}", "\\\"><{}"]
    shots = []
    for wrap in wraps:
        for tag in tags:
            body = f"{tag}={run}>"
            shots.append(wrap.format(body if "<" in wrap else "<" + body))
    others = [f"<script>{run}</script>", f"<ScRiPt>{run}</sCrIpT>", f"javascript:{run}", f"<a href=javascript:{run}>x</a>", "{{7*7}}${{7*7}}",
              f"<svg><script>{run}</script></svg>", f"<math><mi//xlink:href='data:x,<script>{run}</script>'>", f"'-{run}-'", f"\";{run};//",
              f"<style>@import'javascript:{run}'</style>", f"<meta http-equiv=refresh content='0;javascript:{run}'>", f"<base href=javascript:{run}//>",
              f"<form action=javascript:{run}><button>x", f"<object data=javascript:{run}>", f"<embed src=javascript:{run}>",
              f"\u202e<script>{run}</script>", f"\x00<script>{run}</script>", f"&lt;script&gt;{run}&lt;/script&gt;", f"%3Cscript%3E{run}%3C/script%3E", f"<!--<img src=--><img src=x onerror={run}>"]
    return (shots + others * 5)[:200]


def ui_1_charts_are_drawn_in_both_lights(house, browser, _):
    house.loop()
    seen = {}
    for dark in (False, True):
        other = Browser(house, dark=dark).log_in()
        try:
            other.sees("refused", "#agent-stuck .spark-cell")
            other.go("/agents/stuck").sees("at its lowest")
            looks = """const style = (q, p) => getComputedStyle(document.querySelector(q))[p];
                return [style('.timeline .health', 'stroke'), style('.timeline .chart', 'backgroundColor')]"""
            seen[dark] = other.driver.execute_script(looks)
            assert seen[dark][0] != seen[dark][1], seen
            assert other.one(".timeline .health").get_attribute("d").startswith("M"), "a line"
            other.one(".timeline summary").click()
            other.sees("looping", ".timeline details table")
        finally:
            other.close()
    assert seen[False] != seen[True], seen


def ui_1_a_small_chart_says_its_values_to_pointer_and_keyboard(house, browser, _):
    house.loop()
    browser.log_in().sees("refused", "#agent-stuck .spark-cell")
    values = browser.one("#agent-stuck .spark-cell").get_attribute("title")
    assert re.fullmatch(r"Last hour: \d+ asked, 1 refused, at most .* at \d\d:\d\d UTC.*", values), values
    for _ in range(60):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        if browser.driver.execute_script("return document.activeElement.closest('#agent-stuck .spark-cell') !== null"):
            break
    shown = browser.driver.execute_script("return getComputedStyle(document.activeElement, '::after').content")
    assert values in shown, shown
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    until(lambda: browser.path() == "/agents/stuck#over-time", "the agent's charts")
    browser.sees("As a table", "section:has(#over-time)")


def ui_1_events_and_requests_are_searched_by_time(house, browser, _):
    house.loop()
    browser.log_in()
    for path, found in (("/agents/stuck/requests", "by loop"), ("/journal?agent=stuck", "kill switch")):
        browser.go(path).sees(found)
        for field, value, expected in (("from", "2199-01-01T00:00", False), ("from", "", True), ("to", "2001-01-01T00:00", False)):
            browser.driver.execute_script("document.getElementById(arguments[0]).value = arguments[1]", field, value)
            browser.one("form[role=search] button").click()
            until(lambda: f"{field}=" in browser.path(), "it is in the address")
            assert (found in browser.text("#content")) == expected, (path, field, value)
            assert not expected or value == "" or value in browser.path()
    browser.go("/agents/stuck/requests?outcome=refused").sees("by loop")
    assert len(browser.all("td[data-th=Outcome]")) == 1
    assert "outcome=refused" in browser.one("a[download]").get_attribute("href")
    assert browser.complaints() == [], browser.complaints()


def ui_1_pages_show_before_any_script(house, browser, _):
    house.loop()
    browser.log_in()
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    for path, text in (("/", "Deactivated by Kill Switch"), ("/agents/stuck", "at its lowest"), ("/incidents", "stuck"), ("/journal", "stuck")):
        browser.go(path)
        assert text in browser.one("#content").text, path


def ui_1_a_burst_gives_at_most_a_refresh_a_second(house, browser, _):
    browser.log_in().go("/")
    fetches = "return performance.getEntriesByType('resource').filter(e => e.initiatorType === 'fetch').map(e => e.startTime)"
    end, asked = time.monotonic() + 5, 0
    while time.monotonic() < end:
        house.ask(f"a{asked % 9}", f"burst {asked}")
        asked += 1
    begun = browser.driver.execute_script(fetches)
    assert asked > 20 and begun, f"{asked} requests, {begun}"
    # The page waits a second after each; a press, of which there was none, does not wait.
    gaps = [later - earlier for earlier, later in zip(begun, begun[1:])]
    assert all(gap > 990 for gap in gaps), gaps


def main():
    arguments = sys.argv[1:]
    screenshots = None
    if "--screenshots" in arguments:
        at = arguments.index("--screenshots")
        screenshots = pathlib.Path(arguments[at + 1])
        del arguments[at:at + 2]
    binaries, axe, *only = arguments
    axe = pathlib.Path(axe).read_text()
    tests = [value for name, value in globals().items() if re.match(r"(ui|ks|al|po|se|ev)_\d", name) and (not only or name in only)]
    if screenshots:
        pictures.shoot(pathlib.Path(binaries), sys.modules[__name__], screenshots)
        tests = [test for test in tests if only]
    failed = 0
    for test in tests:
        begun = time.monotonic()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-browser-"))
        house = browser = None
        try:
            house = House(pathlib.Path(binaries), folder)
            browser = Browser(house)
            test(house, browser, axe)
            print(f"ok     {test.__name__}  {time.monotonic() - begun:.1f} s", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {test.__name__}\n{traceback.format_exc()}", flush=True)
        finally:
            if browser:
                browser.close()
            if house:
                house.close()
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(tests) - failed} of {len(tests)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
