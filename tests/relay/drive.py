"""Speaks through a running estop as the app, as the platforms and as the admin. Started by run.py, which starts estop.

Asks run.py for nothing: the stubs' ports are chosen here, so this comes first and prints estop's configuration; then it
reads where estop is from its input.
"""

import asyncio
import json
import sys
import time
import urllib.error
import urllib.request

import stubs
from slack_sdk import WebClient
from slack_sdk.signature import SignatureVerifier
from slack_sdk.errors import SlackApiError
from telegram import Bot, Update
from telegram.error import Forbidden
from telegram.request import HTTPXRequest

TOKEN, SLACK_TOKEN, SIGNING_SECRET = "110201543:AAHcanaryTOKENofTELEGRAM", "xoxb-canary-token", "signing-secret"
WITHIN_S = 20


def call(url, body, headers):
    """Status, headers and bytes of an answer."""
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def webhook(data, secret):
    """A signed event, as Slack sends one."""
    body = json.dumps({"type": "event_callback", "event": {"text": "hellö"}}, ensure_ascii=False).encode()
    signer = SignatureVerifier(SIGNING_SECRET)
    timestamp = str(int(time.time()))
    headers = {
        "content-type": "application/json",
        "host": "bot.example.com",
        "x-slack-request-timestamp": timestamp,
        "x-slack-signature": signer.generate_signature(timestamp=timestamp, body=body),
    }
    return call(f"{data}/relay/slack/in/{secret}/events", body, headers)


async def drive(app, telegram, slack, at):
    data, key, secret = at["data"], at["key"], at["secret"]
    request = HTTPXRequest(httpx_kwargs={"headers": {"x-estop-key": key}}, read_timeout=WITHIN_S)
    polling = HTTPXRequest(httpx_kwargs={"headers": {"x-estop-key": key}}, read_timeout=WITHIN_S)
    base = f"{data}/relay/telegram/out"
    bot = Bot(TOKEN, f"{base}/bot", f"{base}/file/bot", request=request, get_updates_request=polling)
    web = WebClient(token=SLACK_TOKEN, base_url=f"{data}/relay/slack/out/", headers={"x-estop-key": key})

    async with bot:
        assert (await bot.send_message(5, "Hi")).message_id == 7
        # Bytes that every re-encoding would change.
        file = bytes(range(256)) * 4000
        assert (await bot.send_document(5, file, filename="a.bin")).message_id == 8
        path, headers, body = telegram.seen[-1]
        assert path == f"/bot{TOKEN}/sendDocument" and file in body, path
        assert not [name for name in headers if name.startswith("x-estop")], headers

        assert web.chat_postMessage(channel="C1", text="Hi")["ts"] == "1.2"
        path, headers, _ = slack.seen[-1]
        assert path == "/api/chat.postMessage" and headers["authorization"] == f"Bearer {SLACK_TOKEN}", headers
        assert not [name for name in headers if name.startswith("x-estop")], headers

        status, _, _ = webhook(data, secret)
        assert status == 200, status
        path, headers, body = app.seen[-1]
        assert path == "/slack/events", path
        assert SignatureVerifier(SIGNING_SECRET).is_valid_request(body, headers), "the signature does not hold"
        assert webhook(data, "wrong")[0] == 404
        print("messages, a file and a signed webhook pass", flush=True)

        poll = asyncio.create_task(bot.get_updates(timeout=50, read_timeout=WITHIN_S))
        assert await asyncio.to_thread(telegram.polling.wait, WITHIN_S), "the long poll never reached the platform"
        before = [len(stub.seen) for stub in (app, telegram, slack)]
        authorized = {"authorization": f"Bearer {at['token']}", "content-type": "application/json"}
        status, _, body = call(f"{at['admin']}/api/emergency/kill", b'{"reason":"manual"}', authorized)
        assert status == 200, (status, body)
        print("kill:", body.decode(), flush=True)
        assert await asyncio.to_thread(telegram.hung_up.wait, WITHIN_S), "the platform's connection is still open"
        await expect(Forbidden, poll)
        await expect(Forbidden, bot.send_message(5, "after"))
        try:
            web.chat_postMessage(channel="C1", text="after")
            raise AssertionError("Slack's library noticed nothing")
        except SlackApiError as error:
            said = error.response
            assert said.status_code == 403, said
            print("slack_sdk says:", error, flush=True)
        status, headers, body = webhook(data, secret)
        assert (status, json.loads(body)) == (503, {"status": "rejected", "reason": "system_shutdown"}), body
        assert headers["x-estop-reason"] == "system_shutdown"
        assert before == [len(stub.seen) for stub in (app, telegram, slack)], "something passed after the kill"
    print("nothing passes after a kill", flush=True)


async def expect(error, doing):
    try:
        await doing
    except error as said:
        print("python-telegram-bot says:", repr(said), flush=True)
        return
    raise AssertionError(f"no {error.__name__}")


def main():
    app, telegram, slack = stubs.Server(), stubs.Server(), stubs.Server()
    relays = {
        "telegram": {"kind": "telegram", "out": telegram.url, "agent": "bot"},
        "slack": {"kind": "slack", "out": f"{slack.url}/api", "in": f"{app.url}/slack", "agent": "bot",
                  "secret_path_env": "RELAY_SECRET"},
    }
    print(json.dumps(relays), flush=True)
    at = json.loads(sys.stdin.readline())
    assert Update.de_json({"update_id": 1}, None).update_id == 1
    asyncio.run(drive(app, telegram, slack, at))


if __name__ == "__main__":
    main()
