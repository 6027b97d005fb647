"""Coding agents for the terminal: how each is started, unmodified, so that it talks to a given address.

A class says how it is launched (launch), and what has to be true before (prepare). Every start gets an empty HOME
and an empty working folder; switches against telemetry and updates are set where a client has them.
"""

import json
import pathlib


IN_TURNS = "loop forever in turns with your shell tool"
WHY_IN_TURNS = "ends a run itself after five equal calls, so its loop has two calls in turns"


class Cli:
    name = env = package = provider = protocol = address = ""
    # It has a shell tool and a loop of its own; if not, its stop is provoked by starting it again and again.
    loops = True
    # The fake model repeats one call for ever; with "in turns", two calls.
    loop_prompt = "loop forever with your shell tool"
    # Requests it is known to send after the first refusal, and why. Each is a measured property of the client.
    extra_requests = 0
    # Requests of its loop that may be let through. A back-to-back loop is stopped after five repeats, a loop of two
    # calls after four rounds; naming calls and restarts add some. From 20 on, only the last resort stops a loop, and
    # the detector has missed something.
    let_through_max = 18
    # It is known not to show the text of the refusal.
    hides_sentence = False
    note = ""
    fast = False
    timeout_s = 180

    def prepare(self, installed, base, home):
        """Command lines to run first, after writing settings below HOME."""
        return []

    def launch(self, installed, base, prompt):
        """The command line and the variables of one headless run with this prompt."""
        raise NotImplementedError

    def variables(self, base):
        return {}


class ClaudeCode(Cli):
    name = "claude-code"
    env = "claude"
    package = "@anthropic-ai/claude-code"
    provider = "anthropic"
    protocol = "Messages"
    address = "ANTHROPIC_BASE_URL"

    def launch(self, installed, base, prompt):
        # Its npm command only forwards to this file once an install script has run.
        claude = next(installed.folder("claude").glob("node_modules/@anthropic-ai/claude-code-*/claude"))
        return [claude, "-p", prompt, "--output-format", "json", "--allowedTools", "Bash"]

    def variables(self, base):
        return {
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": "test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }


class Codex(Cli):
    name = "codex"
    env = "codex"
    package = "@openai/codex"
    provider = "openai"
    protocol = "Responses"
    address = "-c openai_base_url"
    note = "first tries a WebSocket, is told 426, and falls back to HTTP at once"

    def launch(self, installed, base, prompt):
        line = [installed.binary("codex", "codex"), "exec", "--skip-git-repo-check", "--json"]
        line += ["--dangerously-bypass-approvals-and-sandbox", "-c", f'openai_base_url="{base}/v1"']
        return [*line, "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false", prompt]

    def variables(self, base):
        return {"CODEX_API_KEY": "test", "OPENAI_API_KEY": "test"}


class CodexClassic(Codex):
    name = "codex-gpt-5.4"
    note = "an older model of its list, for which it sends ordinary function tools instead of its JavaScript tool"

    def launch(self, installed, base, prompt):
        *line, prompt = super().launch(installed, base, prompt)
        return [*line, "-m", "gpt-5.4", prompt]


class GeminiCli(Cli):
    name = "gemini-cli"
    env = "gemini"
    package = "@google/gemini-cli"
    provider = "gemini"
    protocol = "generateContent"
    address = "GOOGLE_GEMINI_BASE_URL"
    loop_prompt = IN_TURNS
    note = WHY_IN_TURNS

    def prepare(self, installed, base, home):
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        }
        write_json(home / ".gemini" / "settings.json", settings)
        return []

    def launch(self, installed, base, prompt):
        line = [installed.binary("gemini", "gemini"), "--skip-trust", "--yolo", "-m", "gemini-2.5-pro"]
        return [*line, "-o", "json", "-p", prompt]

    def variables(self, base):
        return {"GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": "test"}


class Opencode(Cli):
    name = "opencode"
    env = "opencode"
    package = "opencode-ai"
    provider = "openai"
    protocol = "Chat Completions"
    address = "baseURL in its configuration"

    def launch(self, installed, base, prompt):
        opencode = installed.folder("opencode") / "node_modules" / f"opencode-{installed.platform}" / "bin" / "opencode"
        return [opencode, "run", "-m", "mock/mock-model", "--format", "json", "--auto", prompt]

    def variables(self, base):
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{base}/v1", "apiKey": "test"},
            "models": {"mock-model": {}},
        }
        config = {"provider": {"mock": provider}, "autoupdate": False, "share": "disabled"}
        return {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }


class CopilotCli(Cli):
    name = "copilot-cli"
    env = "copilot"
    package = "@github/copilot"
    provider = "openai"
    protocol = "Chat Completions"
    address = "COPILOT_PROVIDER_BASE_URL"

    def launch(self, installed, base, prompt):
        return [installed.binary("copilot", "copilot"), "-p", prompt, "--allow-all-tools", "--no-color"]

    def variables(self, base):
        return {
            "COPILOT_PROVIDER_BASE_URL": f"{base}/v1",
            "COPILOT_PROVIDER_API_KEY": "test",
            "COPILOT_MODEL": "mock-model",
            "COPILOT_OFFLINE": "true",
        }


class CopilotAnthropic(CopilotCli):
    name = "copilot-anthropic"
    provider = "anthropic"
    protocol = "Messages"

    def variables(self, base):
        given = {"COPILOT_PROVIDER_BASE_URL": base, "COPILOT_PROVIDER_TYPE": "anthropic"}
        return {**super().variables(base), **given}


class CopilotResponses(CopilotCli):
    name = "copilot-responses"
    protocol = "Responses"

    def variables(self, base):
        return {**super().variables(base), "COPILOT_PROVIDER_WIRE_API": "responses"}


class Goose(Cli):
    name = "goose"
    env = "goose"
    package = "@aaif/goose"
    provider = "openai"
    protocol = "Chat Completions"
    address = "OPENAI_HOST"
    note = (
        "npm package 0.20.1 brings goose 1.34.0; it asks for a name of the session beside its task, "
        "and ends with 0 also when it was stopped"
    )

    def launch(self, installed, base, prompt):
        return [installed.binary("goose", "goose"), "run", "--no-session", "-t", prompt]

    def variables(self, base):
        return {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "gpt-4o",
            "OPENAI_HOST": base,
            "OPENAI_API_KEY": "test",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
        }


class GooseAnthropic(Goose):
    name = "goose-anthropic"
    provider = "anthropic"
    protocol = "Messages"
    address = "ANTHROPIC_HOST"

    def variables(self, base):
        given = {"GOOSE_PROVIDER": "anthropic", "GOOSE_MODEL": "claude-sonnet-4-5"}
        return {**super().variables(base), **given, "ANTHROPIC_HOST": base, "ANTHROPIC_API_KEY": "test"}


class Aider(Cli):
    name = "aider"
    env = "py-aider"
    package = "aider-chat"
    provider = "openai"
    protocol = "Chat Completions"
    address = "OPENAI_API_BASE"
    loops = False
    loop_prompt = "Say hello."
    model = "openai/gpt-4o"
    note = "has no tools; it was given the same message again and again, and ends with 0 also when it was stopped"

    def launch(self, installed, base, prompt):
        line = [installed.binary("py-aider", "aider"), "--no-git", "--yes-always", "--no-check-update"]
        line += ["--analytics-disable", "--no-show-release-notes", "--no-pretty", "--no-show-model-warnings"]
        return [*line, "--model", self.model, "--message", prompt]

    def variables(self, base):
        return {
            "OPENAI_API_BASE": f"{base}/v1",
            "OPENAI_API_KEY": "test",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }


class AiderAnthropic(Aider):
    name = "aider-anthropic"
    provider = "anthropic"
    protocol = "Messages"
    address = "ANTHROPIC_BASE_URL"
    model = "anthropic/claude-sonnet-4-5"

    def variables(self, base):
        return {**super().variables(base), "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "test"}


class QwenCode(Cli):
    name = "qwen-code"
    env = "qwen"
    package = "@qwen-code/qwen-code"
    provider = "openai"
    protocol = "Chat Completions"
    address = "OPENAI_BASE_URL"
    loop_prompt = IN_TURNS
    # A lost output is another result: the rounds are not all equal then.
    let_through_max = 40
    note = f"{WHY_IN_TURNS}; now and then it loses the output of a fast command, which delays the stop a little"

    def prepare(self, installed, base, home):
        settings = {
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        }
        write_json(home / ".qwen" / "settings.json", settings)
        return []

    def launch(self, installed, base, prompt):
        return [installed.binary("qwen", "qwen"), "--auth-type", "openai", "--yolo", "-o", "json", "-p", prompt]

    def variables(self, base):
        return {"OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": "test", "OPENAI_MODEL": "gpt-4o"}


class Cline(Cli):
    name = "cline"
    env = "cline"
    package = "cline"
    provider = "openai"
    protocol = "Chat Completions"
    address = "cline auth -b"
    loop_prompt = IN_TURNS
    note = f"{WHY_IN_TURNS}; it leaves a daemon behind"

    def prepare(self, installed, base, home):
        cline = installed.binary("cline", "cline")
        return [[cline, "auth", "-p", "openai", "-k", "test", "-m", "gpt-4o", "-b", f"{base}/v1"]]

    def launch(self, installed, base, prompt):
        return [installed.binary("cline", "cline"), "--json", prompt]


CLIS = [
    ClaudeCode(),
    Codex(),
    CodexClassic(),
    GeminiCli(),
    Opencode(),
    CopilotCli(),
    CopilotResponses(),
    CopilotAnthropic(),
    Goose(),
    GooseAnthropic(),
    Aider(),
    AiderAnthropic(),
    QwenCode(),
    Cline(),
]


def write_json(path: pathlib.Path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
