#!/usr/bin/env python3
"""A night of whoever is paged: a real estop with a fake model stops agents for six reasons, a webhook on this machine receives the
alerts, and a phone (390 by 844 pixels, Chromium) opens the page that each links to. Without scrolling it must say which agent, what
it was doing, since when, what it cost and what to do next (EV-1, AL-1, UI-1).

Usage: tests/night/run.py [--binaries FOLDER] [--pictures FOLDER]     (needs a built estop, chromium and chromedriver)

The browser is driven as in tests/browser, whose tools it uses.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "browser"))

WITHIN_S = 60
PHONE = (390, 844)
# What each page must show, and where: on an incident, on an escalation, on an agent's page.
INCIDENT = {"agent": ".head", "doing": "h1", "since": ".head time", "cost": ".head p", "next": "ol.todo"}
SYSTEM = {**INCIDENT, "cost": None}
ESCALATION = {"agent": "section .head a", "doing": "section h2", "since": "section .head time", "cost": "section .cost", "next": "section .todo"}
AGENT = {"agent": "h1", "doing": "#latest", "since": "#latest time", "cost": "#latest", "next": "#status"}


def far_day():
    """A day of the week three days from now."""
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=3)).strftime("%a").lower()


def configuration(receiver, admin):
    return {
        "policy": {"kill_switch_enabled": True},
        "watchdog": {"max_calls_per_minute": 20},
        "agents": {
            "spender": {"policy": {"budget": {"tokens_per_day": 1}}},
            "nightly": {"policy": {"allowed_hours": {"days": [far_day()], "from": "00:00", "to": "24:00"}}},
            "runner": {"policy": {"limits": {"max_turns": 2}}},
            "runaway": {"policy": {"kill_switch_enabled": False}},
        },
        "alerts": {
            "dashboard": admin,
            "channels": {"pager": {"type": "webhook", "url": receiver, "allow_loopback": True}},
        },
    }


def weather(step):
    """A conversation of an agent that asks for the same weather again and again."""
    messages = [{"role": "user", "content": "Will it rain in Berlin tonight? Book an umbrella if so."}]
    for number in range(step):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Berlin"}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "rain, 80 %"})
    return messages


class Night:
    """What happens, and what is seen of it."""

    def __init__(self, house, receiver, pictures):
        self.house, self.receiver, self.pictures, self.failures = house, receiver, pictures, []

    def say(self, agent, messages, **more):
        body = {"model": "gpt-4o-mini", "max_tokens": 60, "messages": messages, **more}
        return self.house.send(f"{self.house.data}/agents/{agent}/openai/v1/chat/completions", "POST", body)[0]

    def until_refused(self, agent, most, messages):
        for number in range(most):
            if self.say(agent, messages(number)) != 200:
                return
        raise AssertionError(f"{agent} was not stopped by {most} requests")

    def loops(self):
        self.until_refused("looper", 12, weather)

    def spends(self):
        self.until_refused("spender", 3, lambda n: [{"role": "user", "content": f"Translate chapter {n + 1}."}])

    def works_at_night(self):
        assert self.say("nightly", [{"role": "user", "content": "Rebuild the index."}]) != 200

    def runs_on(self):
        headers = {"x-estop-run": "issue-42"}
        for turn in range(4):
            body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": f"Step {turn + 1}: go on."}]}
            url = f"{self.house.data}/agents/runner/openai/v1/chat/completions"
            if self.house.send(url, "POST", body, headers)[0] != 200:
                break
        # It reported that it is blocked: the run waits for a person.
        call = {"agent": "runner", "run": "issue-42", "tool": "report_blocked", "args": {"summary": "The tests need a database."}}
        self.house.api("POST", "/api/hooks/pre-tool-use", call)
        self.house.api("POST", "/api/hooks/post-tool-use", {**call, "result": "ok"})

    def runs_away(self):
        self.until_refused("runaway", 40, lambda n: [{"role": "user", "content": f"Fetch page {n}, then {n * 7919 % 1000}."}])

    def is_stopped_by_hand(self):
        status, _ = self.house.api("POST", "/api/emergency/kill", {"note": "smoke in the server room"})
        assert status == 200, status

    def alert(self, kind, agent):
        """The alert as it was received."""
        def found():
            for raw in list(self.receiver.got):
                data = json.loads(raw)["data"]
                if data["alert_type"] == kind and data["agent"] == agent and data["kind"] == "alert":
                    return data
            return None
        got = [(json.loads(raw)["data"]["alert_type"], json.loads(raw)["data"]["agent"]) for raw in self.receiver.got]
        return drive.until(found, f"the alert {kind} of {agent}; so far {got}")

    def look(self, phone, name, path, places, texts=()):
        """Opens a page, and checks that all it must say is on the first screen."""
        phone.go(path)
        phone.sees("estop", ".brand")
        phone.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        if self.pictures:
            phone.driver.save_screenshot(str(self.pictures / f"night-{name}.png"))
        for what, selector in places.items():
            if selector is None:
                continue
            place = phone.driver.execute_script(
                """const e = document.querySelector(arguments[0]); if (!e) return null;
                const r = e.getBoundingClientRect(), t = e.innerText.trim();
                return {top: r.top, left: r.left, right: r.right, bottom: r.bottom, text: t};""", selector)
            if place is None or not place["text"]:
                self.failures.append(f"{name}: {what} ({selector}) is missing")
            elif place["top"] < 0 or place["left"] < 0 or place["right"] > PHONE[0] or place["bottom"] > PHONE[1]:
                self.failures.append(f"{name}: {what} is not on the first screen: {place}")
            else:
                print(f"   {what}: {place['text'][:110]!r}")
        shown = phone.text()
        for text in texts:
            if text not in shown:
                self.failures.append(f"{name}: {text!r} is not on the page")

    def stops(self):
        """Each stop: how it comes about, its alert, and where everything stands on the page that the alert links to."""
        return [
            ("loop", self.loops, ("kill_switch", "looper"), INCIDENT, ["get_weather", "Berlin", "estop agents activate looper"]),
            ("budget", self.spends, ("budget", "spender"), AGENT, ["Refused since", "refused by budget", "raise the budget"]),
            # Nobody is woken because an agent keeps its hours: its own page says it.
            ("hours", self.works_at_night, None, AGENT, ["allowed_hours", "Until 20"]),
            ("run-limit", self.runs_on, ("circuit_breaker", "runner"), ESCALATION, ["issue-42", "estop runs extend runner issue-42", "The tests need a database."]),
            ("watchdog", self.runs_away, ("watchdog", "runaway"), INCIDENT, ["21 model calls within a minute", "estop agents activate runaway"]),
            ("red-button", self.is_stopped_by_hand, ("system_kill", None), SYSTEM, ["smoke in the server room", "the whole system", "estop emergency unlock", "estop emergency clear"]),
        ]


def night(binaries, pictures):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-night-"))
    house = phone = None
    try:
        house = drive.House(binaries, folder)
        with drive.with_receiver(house) as receiver:
            config = json.loads((folder / "estop.yaml").read_text())
            config.update(configuration(config["alerts"]["channels"]["own"]["url"], house.admin))
            (folder / "estop.yaml").write_text(json.dumps(config))
            house.open_again()
            at = Night(house, receiver, pictures)
            phone = drive.Browser(house, *PHONE).log_in()
            for name, happens, alert, places, texts in at.stops():
                begun = time.monotonic()
                print(f"{name}:")
                happens()
                path = "/agents/nightly"
                if alert:
                    told = at.alert(*alert)
                    link = told["link"]
                    assert link.startswith(house.admin), link
                    path = link[len(house.admin):]
                    print(f"   alert: {told['title']!r}, after {time.monotonic() - begun:.1f} s, links to {path}")
                    assert any(fact["label"] == "Why" for fact in told["facts"]) and told["steps"], told
                at.look(phone, name, path, places, texts)
            assert phone.complaints() == [], phone.complaints()
            return at.failures
    finally:
        if phone:
            phone.close()
        if house:
            house.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--pictures", type=pathlib.Path, help="keep what the phone showed here")
    arguments = parser.parse_args()
    import run as browser  # tests/browser/run.py: the tools are installed once for both

    for program in ("chromium", "chromedriver", "npm"):
        if not shutil.which(program):
            print(f"skipped: {program} is missing (apt-get install chromium chromium-driver npm)")
            return 0
    if "selenium" not in sys.modules and not os.environ.get("ESTOP_NIGHT_CHILD"):
        found = browser.installed()
        if found is None:
            print("skipped: selenium cannot be installed here")
            return 0
        return subprocess.run([found[0], __file__, *sys.argv[1:]], env=dict(os.environ, ESTOP_NIGHT_CHILD="1", PYTHONDONTWRITEBYTECODE="1")).returncode
    global drive
    import drive

    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    failures = night(arguments.binaries.resolve(), arguments.pictures)
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{6 - len({failure.split(':')[0] for failure in failures})} of 6 stops can be read on a phone at once, {time.monotonic() - begun:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
