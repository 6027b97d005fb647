"""The receivers and the checks. Run by run.py: drive.py SEND PACKAGES FOLDER ESTOP"""

import base64
import datetime
import email
import email.policy
import http.client
import http.server
import ipaddress
import json
import logging
import os
import pathlib
import re
import secrets
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import warnings

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

# aiosmtpd does not see that a whole socket is TLS.
warnings.filterwarnings("ignore", message="Requiring AUTH")
logging.getLogger("mail.log").setLevel(logging.ERROR)
HERE = pathlib.Path(__file__).resolve().parent
SEND, PACKAGES, FOLDER, ESTOP = (pathlib.Path(argument) for argument in sys.argv[1:5])
WITHIN_S = 90
SECRETS = {
    "WHSEC_OLD": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
    "WHSEC_NEW": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
    "TELEGRAM_TOKEN": "123456:canary-telegram-" + secrets.token_hex(8),
    "NTFY_TOKEN": "tk_canary" + secrets.token_hex(8),
    "PAGERDUTY_KEY": "canarypagerduty" + secrets.token_hex(8),
    "GITHUB_TOKEN": "ghp_canary" + secrets.token_hex(16),
    "SMTP_PASSWORD": "canary-smtp-" + secrets.token_hex(8),
    "SMTP_WRONG": "canary-wrong-" + secrets.token_hex(8),
}
SLACK_PATH = "/services/T0/B0/canary-slack-" + secrets.token_hex(8)
problems = []


def check(what, fine, more=""):
    print(("ok      " if fine else "FAILED  ") + what + (f": {more}" if more and not fine else ""), flush=True)
    if not fine:
        problems.append(what)


class Receiver(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Receiver.seen.append((self.path, dict(self.headers), body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok":true}')

    def log_message(self, *_):
        pass


class Mailbox:
    """Keeps what arrives, and how."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((session.ssl is not None, session.authenticated, envelope.rcpt_tos, envelope.content))
        return "250 taken"


def login(server, session, envelope, mechanism, data):
    fine = isinstance(data, LoginPassword) and data.login == b"estop" and data.password == SECRETS["SMTP_PASSWORD"].encode()
    # Not handled: the server itself says whether it was good.
    return AuthResult(success=fine, handled=False)


def certificate():
    """An authority of our own that signs for localhost."""
    now = datetime.datetime.now(datetime.timezone.utc)
    name = lambda text: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def signed(subject, public, is_authority):
        builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name("estop test authority"))
        builder = builder.public_key(public).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=2))
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        if not is_authority:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(authority_key, hashes.SHA256())

    pem = serialization.Encoding.PEM
    (FOLDER / "ca.pem").write_bytes(signed("estop test authority", authority_key.public_key(), True).public_bytes(pem))
    (FOLDER / "cert.pem").write_bytes(signed("localhost", key.public_key(), False).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (FOLDER / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "cert.pem", FOLDER / "key.pem")
    return context


def free_port():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return reserved.getsockname()[1]


def mail_servers(context):
    starttls, implicit = Mailbox(), Mailbox()
    first = Controller(starttls, hostname="127.0.0.1", port=free_port(), tls_context=context, require_starttls=True,
                       authenticator=login, auth_required=True)
    second = Controller(implicit, hostname="127.0.0.1", port=free_port(), ssl_context=context,
                        authenticator=login, auth_required=True, auth_require_tls=False)
    first.start()
    second.start()
    return first, starttls, second, implicit


def fix(part):
    """`nullable` without a type makes Prism's validator give up on a whole body without a word."""
    if isinstance(part, dict):
        if "nullable" in part and "type" not in part:
            del part["nullable"]
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            fix(inner)


def cut_description():
    """GitHub's description, cut down to what we use: the whole takes a minute to start."""
    whole = json.loads((PACKAGES / "node_modules/@octokit/openapi/generated/api.github.com.json").read_text())
    used = ["/repos/{owner}/{repo}/issues", "/repos/{owner}/{repo}/issues/{issue_number}/comments",
            "/repos/{owner}/{repo}/statuses/{sha}", "/repos/{owner}/{repo}/commits/{ref}"]
    whole["paths"] = {path: whole["paths"][path] for path in used}
    whole.pop("webhooks", None)
    whole.pop("x-webhooks", None)
    needed, todo = {}, [json.dumps(whole["paths"])]
    while todo:
        for kind, name in re.findall(r'"#/components/([\w-]+)/([^"]+)"', todo.pop()):
            if name not in needed.setdefault(kind, {}):
                needed[kind][name] = whole["components"][kind][name]
                todo.append(json.dumps(needed[kind][name]))
    whole["components"] = needed
    fix(whole)
    (FOLDER / "github.json").write_text(json.dumps(whole))


def prism():
    """A GitHub that refuses whatever breaks its description."""
    cut_description()
    port = free_port()
    said = open(FOLDER / "prism.log", "w")
    line = [PACKAGES / "node_modules/.bin/prism", "mock", "--errors", "-h", "127.0.0.1", "-p", str(port), FOLDER / "github.json"]
    process = subprocess.Popen(line, stdout=said, stderr=subprocess.STDOUT)
    begun = time.monotonic()
    while "listening" not in (FOLDER / "prism.log").read_text().lower():
        if process.poll() is not None or time.monotonic() - begun > WITHIN_S:
            sys.exit("prism does not start:\n" + (FOLDER / "prism.log").read_text())
        time.sleep(0.2)
    return process, port


EVIL = "coder\r\nBcc: evil@example.com <script>@everyone"


def alert_events():
    base = {"seq": 0, "at": int(time.time() * 1000), "phase": "raised", "agent": EVIL, "run": "nightly"}
    limit = {"limit": "tool_calls", "current": 200, "max": 200}
    seen = {"id": "coder-2", "issue": "42", "role": "feat-dev", "limit": limit, "summary": "Parser done, tests red.",
            "branch": "feat/parser", "session": "01a1dc9c", "commit": "6dcb09b5b57875f334f61aebed695e2e4193db5e"}
    return [
        dict(base, id="1.0", alert="kill_switch", cause="loop", evidence="score 11.5 over 10.0: äöü\r\n.\r\nQUIT",
             cost={"run": 3421000000, "today": 12105000000}),
        dict(base, id="2.0", alert="circuit_breaker", cause="max tool calls", detail={"escalation": seen}),
        dict(base, id="3.0", alert="kill_switch", phase="cleared", by="anna", at=base["at"] + 1),
    ]


def config(web, starttls, implicit, github):
    at = f"http://127.0.0.1:{web}"
    mail = {"type": "email", "host": "localhost", "user": "estop", "from": "estop <estop@example.com>",
            "to": ["Anna Müller <anna@example.com>", "bert@example.com"], "ca_file": str(FOLDER / "ca.pem")}
    channels = {
        "webhook": {"type": "webhook", "url": at + "/webhook", "secret_env": ["WHSEC_OLD", "WHSEC_NEW"]},
        "slack": {"type": "slack", "url_env": "SLACK_URL"},
        "discord": {"type": "discord", "url": at + "/discord"},
        "teams": {"type": "teams", "url": at + "/teams"},
        "telegram": {"type": "telegram", "url": at, "token_env": "TELEGRAM_TOKEN", "chat": "-1001"},
        "ntfy": {"type": "ntfy", "url": at, "topic": "estop", "token_env": "NTFY_TOKEN"},
        "pagerduty": {"type": "pagerduty", "url": at + "/v2/enqueue", "token_env": "PAGERDUTY_KEY"},
        "starttls": dict(mail, port=starttls, tls="starttls", password_env="SMTP_PASSWORD"),
        "implicit": dict(mail, port=implicit, tls="implicit", password_env="SMTP_PASSWORD"),
        "github": {"type": "github", "url": f"http://127.0.0.1:{github}", "token_env": "GITHUB_TOKEN", "repository": "acme/robots"},
    }
    for channel in channels.values():
        channel.update(allow_loopback=True, timeout_s=30)
    return {"dashboard": "https://estop.example.com", "timezone": "Europe/Berlin", "channels": channels}


def send(name, settings, told=None):
    """Runs the sender; its code, and the log it printed."""
    place = FOLDER / name
    place.mkdir()
    (place / "config.json").write_text(json.dumps(settings))
    line = [SEND, place / "estop.db", place / "config.json"]
    if told is not None:
        (place / "alert_events.json").write_text(json.dumps(told))
        line.append(place / "alert_events.json")
    done = subprocess.run(line, capture_output=True, text=True, timeout=WITHIN_S, env=dict(os.environ, **SECRETS))
    (place / "said").write_text(done.stdout + done.stderr)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def judge_mail(box, name, upgraded):
    # A session that began with TLS was never upgraded; its socket speaks nothing else.
    fine = len(box.mails) == 3 and all(tls == upgraded and user for tls, user, *_ in box.mails)
    check(f"al_1 {name}: three mails, over TLS, after a login", fine)
    check(f"al_1 {name}: nobody else gets them", all(to == ["anna@example.com", "bert@example.com"] for _, _, to, _ in box.mails))
    parsed = [email.message_from_bytes(content, policy=email.policy.default) for *_, content in box.mails]
    allowed = {"From", "To", "Subject", "Message-ID", "Date", "MIME-Version", "Content-Type", "X-Peer", "X-MailFrom", "X-RcptTo"}
    check(f"al_1 {name}: no header comes from outside", all(set(mail.keys()) <= allowed for mail in parsed), parsed[0].keys())
    check(f"al_1 {name}: no defects", not any(mail.defects for mail in parsed))
    first = parsed[0]
    check(f"al_1 {name}: the subject says it", first["subject"].startswith("[estop] STOP: Agent coder Bcc: evil@example.com"), first["subject"])
    text, html = (first.get_body((kind,)).get_content() for kind in ("plain", "html"))
    check(f"al_1 {name}: evidence and commands", "score 11.5 over 10.0: äöü . QUIT" in text and "estop agents activate 'coder Bcc" in text, text)
    check(f"al_1 {name}: mark-up is text", "<script>" not in html and "&lt;script&gt;" in html)
    check(f"al_1 {name}: ids differ", len({mail["message-id"] for mail in parsed}) == 3)


def judge_webhooks(seen):
    for which in ("WHSEC_OLD", "WHSEC_NEW"):
        judge = Webhook(SECRETS[which])
        try:
            for headers, body in seen:
                judge.verify(body, {key.lower(): value for key, value in headers.items()})
            fine = True
        except WebhookVerificationError as error:
            fine = error
        check(f"al_1 PyPI standardwebhooks takes our signature ({which})", fine is True, str(fine))
    headers, body = seen[0]
    headers = {key.lower(): value for key, value in headers.items()}
    for what, changed_headers, changed in [
        ("another body", headers, body + b" "),
        ("an old time", dict(headers, **{"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 600)}), body),
        ("another id", dict(headers, **{"webhook-id": "msg_other"}), body),
    ]:
        try:
            Webhook(SECRETS["WHSEC_NEW"]).verify(changed, changed_headers)
            check(f"al_1 {what} is refused", False)
        except WebhookVerificationError:
            check(f"al_1 {what} is refused", True)


def compiled(types):
    (PACKAGES / "payloads.ts").write_text("\n".join(types))
    tsc = [PACKAGES / "node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "payloads.ts"]
    done = subprocess.run(tsc, cwd=PACKAGES, capture_output=True, text=True)
    (PACKAGES / "payloads.ts").unlink()
    return done


def judge_with_node(by_path):
    seen = [{"path": path, "headers": headers, "body": body.decode()} for path, headers, body in Receiver.seen]
    (FOLDER / "seen.json").write_text(json.dumps({"seen": seen, "secrets": [SECRETS["WHSEC_OLD"], SECRETS["WHSEC_NEW"]]}))
    types = ['import type { IncomingWebhookSendArguments } from "@slack/webhook";',
             'import type { RESTPostAPIWebhookWithTokenJSONBody } from "discord-api-types/v10";',
             'import type { event } from "@pagerduty/pdjs";',
             # These two are in PagerDuty's documentation and not in its types.
             'type PagerDuty = Parameters<typeof event>[0]["data"] & { client?: string; client_url?: string };',
             'import type { ApiMethods } from "@grammyjs/types";']
    named = {"/discord": "RESTPostAPIWebhookWithTokenJSONBody", SLACK_PATH: "IncomingWebhookSendArguments",
             "/v2/enqueue": "PagerDuty",
             f"/bot{SECRETS['TELEGRAM_TOKEN']}/sendMessage": 'Parameters<ApiMethods<never>["sendMessage"]>[0]'}
    count = 0
    for path, kind in named.items():
        for body in by_path[path]:
            types.append(f"export const payload{count}: {kind} = {body.decode()};")
            count += 1
    done = compiled(types)
    check(f"al_1 {count} payloads are of the services' own types", done.returncode == 0 and count >= 12, done.stdout)
    wrong = [line.replace(" = {", ' = {"unknown_field": 1, ', 1) for line in types]
    errors = re.findall(r"error TS2353", compiled(wrong).stdout)
    check("al_1 and the types would notice an unknown field in each", len(errors) == count, str(len(errors)))
    judge = PACKAGES / "judge.mjs"
    judge.write_text((HERE / "judge.mjs").read_text())
    done = subprocess.run(["node", judge, FOLDER / "seen.json"], capture_output=True, text=True, cwd=PACKAGES)
    for line in done.stdout.splitlines():
        fine, _, what = line.partition(" ")
        check(f"al_1 {what}", fine == "ok")
    check("al_1 the judge in Node came to its end", done.returncode == 0, done.stderr)


def judge_github(log):
    lines = [line for line in log if line["target"] == "github"]
    check("al_2 GitHub's description takes the escalation", [line["outcome"] for line in lines] == ["delivered"], str(lines))
    said = (FOLDER / "prism.log").read_text()
    check("al_2 no request broke it", "UNPROCESSABLE" not in said and "violat" not in said.lower(), said[-2000:])
    asked = re.findall(r"(?i)(get|post) (/repos/\S+) .*request received", said)
    shapes = {(method.lower(), re.sub(r"\?.*", "", path)) for method, path in asked}
    check("al_2 comment, status and issue were made", {path.split("/")[4] for method, path in shapes if method == "post"} == {"issues", "statuses"}
          and len([1 for method, _ in shapes if method == "post"]) == 3, str(shapes))


def judge_the_judge(port):
    """GitHub's stand-in must notice a broken request, or its silence means nothing."""
    for path, body in [("issues", b'{"title": "x", "labels": "no list"}'), ("issues", b'{"body": "no title"}'), ("issues/42/comments", b'{"text": "x"}'), ("statuses/6dcb09b5b57875f334f61aebed695e2e4193db5e", b'{"state": "sad"}')]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
        headers = {"content-type": "application/json", "accept": "application/json"}
        connection.request("POST", f"/repos/acme/robots/{path}", body, headers)
        status = connection.getresponse().status
        check(f"al_2 a broken request to {re.sub('/[0-9a-f]{2,}$', '', path)} would be noticed", status in (400, 422), str(status))


def judge_secrets():
    hidden = [*SECRETS.values(), SLACK_PATH, *(base64.b64encode(value.encode()).decode() for value in SECRETS.values())]
    written = b"".join(file.read_bytes() for file in FOLDER.rglob("*") if file.is_file() and (file.parent.name == "journal" or file.name.startswith(("estop.db", "said"))))
    leaked = [word for word in hidden if word.encode() in written]
    check("al_1 no secret is in the store or in what was said", not leaked and len(written) > 10_000, str(leaked))


def main():
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    SECRETS["SLACK_URL"] = f"http://127.0.0.1:{web.server_port}{SLACK_PATH}"
    first, starttls, second, implicit = mail_servers(certificate())
    github, port = prism()
    try:
        code, log = send("all", config(web.server_port, first.port, second.port, port), alert_events())
        check("al_1 everything was delivered", code == 0, json.dumps(log, indent=1))
        by_path = {}
        for path, headers, body in Receiver.seen:
            by_path.setdefault(path, []).append(body)
        judge_webhooks([(headers, body) for path, headers, body in Receiver.seen if path == "/webhook"])
        judge_mail(starttls, "STARTTLS", True)
        judge_mail(implicit, "TLS", False)
        judge_with_node(by_path)
        judge_github(log)
        daemon = Daemon(config(web.server_port, first.port, second.port, port))
        try:
            judge_daemon(daemon, starttls, implicit)
        finally:
            daemon.process.kill()
            daemon.process.wait()
        judge_the_judge(port)
        refusals(first.port, second.port)
        judge_secrets()
    finally:
        github.kill()
        github.wait()
        first.stop()
        second.stop()
    sys.exit(1 if problems else 0)


class Model(http.server.BaseHTTPRequestHandler):
    """A model that says the same to everybody."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        said = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": "Not yet."}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # estop stopped it

    def log_message(self, *_):
        pass


class Daemon:
    """`estop serve` with these alerts."""

    def __init__(self, alerts):
        self.place = FOLDER / "daemon"
        self.place.mkdir()
        model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=model.serve_forever, daemon=True).start()
        # JSON is YAML.
        settings = {"listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"}, "alerts": alerts,
                    "providers": {"openai": {"base_url": f"http://127.0.0.1:{model.server_port}"}},
                    "agents": {"coder": {"policy": {"kill_switch_enabled": True}}, "builder": {}}}
        (self.place / "estop.yaml").write_text(json.dumps(settings))
        line = [ESTOP, "serve", "--config", "estop.yaml", "--data-dir", "data"]
        # The first start prints a token, which is meant to be seen: it is not kept with what is searched for secrets.
        self.process = subprocess.Popen(line, cwd=self.place, env=dict(os.environ, **SECRETS), stdout=subprocess.PIPE,
                                        stderr=open(self.place / "said", "w"), text=True)
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def api(self, path, body):
        """As the owner of the data directory."""
        connection = http.client.HTTPConnection("localhost", timeout=WITHIN_S)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.connect(str(self.place / "data" / "estop.sock"))
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            sys.exit(f"{path}: {answer.status} {said.decode()}")
        return json.loads(said or b"null")

    def ask(self, agent):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        body = {"model": "gpt-4o-mini", "max_tokens": 50, "messages": [{"role": "user", "content": "Is the build done?"}]}
        connection.request("POST", f"/agents/{agent}/openai/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse().status

    def escalate(self):
        """A run of `builder` reaches its limit and reports."""
        self.api("/api/runs", {"agent": "builder", "run": "issue-42", "role": "feat-dev", "issue": "42", "branch": "feat/parser",
                               "session": "01a1dc9c", "limits": {"max_tool_calls": 2}})
        call = {"agent": "builder", "run": "issue-42", "tool": "bash", "args": {"command": "ls"}}
        for number in ("1", "2"):
            self.api("/api/hooks/pre-tool-use", dict(call, call=number))
        call.update(call="3", tool="report_complete")
        self.api("/api/hooks/pre-tool-use", call)
        self.api("/api/hooks/post-tool-use", dict(call, result="noted", exit_code=0))

    def log(self):
        """How every try ended; estop must have ended."""
        with sqlite3.connect(self.place / "data" / "estop.db") as database:
            return database.execute("SELECT target, outcome, detail FROM delivery_log ORDER BY id").fetchall()


def until(what, look):
    begun = time.monotonic()
    while not look():
        if time.monotonic() - begun > WITHIN_S:
            check(what, False, "it does not come")
            return
        time.sleep(0.05)


def judge_daemon(daemon, starttls, implicit):
    """The daemon itself: a loop, an escalation, an activation and the red button, to everybody."""
    mails, posts = len(starttls.mails), len(Receiver.seen)
    while daemon.ask("coder") == 200:
        pass
    daemon.escalate()
    daemon.api("/api/agents/coder/activate", {})
    killed = daemon.api("/api/emergency/kill", {"note": "drill"})
    check("ks_2 the kill's answer says that people are told", killed["told"] is True, str(killed))
    hooks = lambda: [(headers, body) for path, headers, body in Receiver.seen[posts:] if path == "/webhook"]
    types = lambda: sorted(json.loads(body)["type"] + "/" + json.loads(body)["data"]["kind"] for _, body in hooks())
    told = ["estop.alert.circuit_breaker/alert", "estop.alert.kill_switch/alert", "estop.alert.system_kill/alert", "estop.recovery.kill_switch/recovery"]
    until("al_1 the daemon's webhooks", lambda: len(hooks()) >= len(told))
    until("al_1 the daemon's mails", lambda: min(len(starttls.mails), len(implicit.mails)) >= mails + len(told))
    said = lambda: (FOLDER / "prism.log").read_text()
    until("al_2 the daemon's issue", lambda: len(re.findall(r"(?i)post /repos/acme/robots/issues .*request received", said())) >= 2)
    daemon.process.terminate()
    check("al_1 the daemon ends", daemon.process.wait(WITHIN_S) == 0)
    check("al_1 the daemon told each once", types() == told, str(types()))
    judge_webhooks(hooks())
    subjects = [email.message_from_bytes(content, policy=email.policy.default)["subject"] for *_, content in starttls.mails[mails:]]
    check("al_1 the daemon's mails say it", len(subjects) == len(told) and any("coder was stopped: stuck in a loop" in subject for subject in subjects)
          and any("EMERGENCY STOP" in subject for subject in subjects), str(subjects))
    log = daemon.log()
    github = [line for line in log if line[0] == "github"]
    check("al_2 the daemon's escalation is in GitHub, once", [line[1] for line in github] == ["delivered"], str(github))
    check("al_2 and no request of it broke GitHub's description", "UNPROCESSABLE" not in said() and "violat" not in said().lower(), said()[-2000:])
    check("al_1 everything the daemon sent arrived", {line[1] for line in log} == {"delivered"} and len({line[0] for line in log}) == 10, str(log))


def refusals(starttls, implicit):
    """What must not work: a wrong password, an authority nobody trusts, a server without STARTTLS."""
    mail = {"type": "email", "host": "localhost", "user": "estop", "from": "estop@example.com", "to": ["anna@example.com"],
            "ca_file": str(FOLDER / "ca.pem"), "allow_loopback": True, "timeout_s": 20}
    plain = Controller(Mailbox(), hostname="127.0.0.1", port=free_port())
    plain.start()
    untrusted = {key: value for key, value in mail.items() if key != "ca_file"}
    channels = {
        "wrong": dict(mail, port=starttls, tls="starttls", password_env="SMTP_WRONG"),
        "untrusted": dict(untrusted, port=implicit, tls="implicit", password_env="SMTP_PASSWORD"),
        "plain": dict(mail, port=plain.port, tls="starttls", password_env="SMTP_PASSWORD"),
        "forbidden": dict(mail, port=implicit, tls="implicit", password_env="SMTP_PASSWORD", allow_loopback=False),
    }
    place = FOLDER / "refused"
    place.mkdir()
    (place / "config.json").write_text(json.dumps({"channels": channels}))
    environment = dict(os.environ, ESTOP_SEND_WITHIN_S="20", **SECRETS)
    done = subprocess.run([SEND, place / "estop.db", place / "config.json"], capture_output=True, text=True, env=environment, timeout=WITHIN_S)
    (place / "said").write_text(done.stdout + done.stderr)
    said = {}
    for line in done.stdout.splitlines():
        line = json.loads(line)
        said.setdefault(line["target"], line)
    plain.stop()
    for name, word in [("wrong", "535"), ("untrusted", "TLS failed"), ("plain", "STARTTLS"), ("forbidden", "is not sent to")]:
        line = said.get(name, {})
        check(f"al_1 mail is not sent ({name})", line.get("outcome") == "retry" and word in line.get("detail", ""), str(line))
    check("al_1 what does not arrive is no success", done.returncode == 1)


if __name__ == "__main__":
    main()
