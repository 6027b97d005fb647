"""The coding agents of these tests: how each is started, how its shell tool is called, where its settings are."""

import json
import pathlib

from drivers import cli


class ClaudeCode(cli.ClaudeCode):
    tool = "Bash"
    path = "/v1/messages"
    settings = [".claude/settings.json"]

    def prepare(self, home):
        write(home / ".claude" / "settings.json", '{\n  "cleanupPeriodDays": 20\n}')

    def launch(self, installed, base, prompt):
        *line, tools = super().launch(installed, base, prompt)
        line = [word if word != "json" else "stream-json" for word in line]
        return [*line, tools, "--verbose", "--include-hook-events"]

    def folders(self, installed):
        return []

    def arguments(self, command):
        return {"command": command, "description": "a step"}

    def shows_notice(self, ended):
        return "was NOT checked" in ended.output


class Codex(cli.CodexClassic):
    name = "codex"
    tool = "exec_command"
    path = "/responses"
    settings = [".codex/hooks.json", ".codex/config.toml"]

    def prepare(self, home):
        write(home / ".codex" / "config.toml", 'model_reasoning_effort = "low"\n\n# mine\n[tui]\nnotifications = false\n')

    def launch(self, installed, base, prompt):
        provider = (
            f'{{name="estop",base_url="{base}/v1",wire_api="responses",env_key="OPENAI_API_KEY",'
            "request_max_retries=0,stream_max_retries=0}"
        )
        line = [installed.binary("codex", "codex"), "exec", "--skip-git-repo-check", "--json"]
        line += ["--dangerously-bypass-approvals-and-sandbox", "-c", 'model_provider="estop"']
        line += ["-c", f"model_providers.estop={provider}", "-c", "analytics.enabled=false"]
        return [*line, "-c", "check_for_update_on_startup=false", "-m", "gpt-5.4", prompt]

    def folders(self, installed):
        return [pathlib.Path(installed.binary("codex", "codex")).parent]

    def arguments(self, command):
        return {"cmd": command}

    def shows_notice(self, ended):
        """Its headless mode shows nothing of what a hook says beside an answer."""
        return None


class GeminiCli(cli.GeminiCli):
    tool = "run_shell_command"
    path = ":streamGenerateContent"
    settings = [".gemini/settings.json"]

    def prepare(self, home):
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }
        text = json.dumps(settings, indent=4)
        write(home / ".gemini" / "settings.json", f"// mine\n{text}\n")

    def folders(self, installed):
        return [pathlib.Path(installed.node).parent] if installed.node else []

    def arguments(self, command):
        return {"command": command}

    def shows_notice(self, ended):
        return None


class Other:
    """Those of `--all`: they have their tool's name, and where their settings are."""

    path = "/chat/completions"

    def prepare(self, home):
        write(home / "mine.txt", "mine")

    def first(self, installed, base, home):
        """Command lines to run before each start."""
        return []

    def folders(self, installed):
        return [pathlib.Path(installed.node).parent] if installed.node else []

    def arguments(self, command):
        return {"command": command, "description": "a step"}

    def shows_notice(self, ended):
        return None


class Copilot(Other, cli.CopilotCli):
    name = "copilot"
    tool = "bash"
    settings = [".copilot/hooks/estop.json"]


class Qwen(Other, cli.QwenCode):
    name = "qwen"
    tool = "run_shell_command"
    settings = [".qwen/settings.json"]

    def prepare(self, home):
        cli.QwenCode.prepare(self, None, "", home)


class Opencode(Other, cli.Opencode):
    tool = "bash"
    settings = [".config/opencode/plugins/estop.js"]
    # It asks for a title of the session, too.
    contains = '"name":"bash"'


class Cline(Other, cli.Cline):
    tool = "run_commands"
    tells = False
    settings = [f".cline/hooks/{event}" for event in ("PreToolUse", "PostToolUse", "TaskStart", "UserPromptSubmit")]

    def first(self, installed, base, home):
        return cli.Cline.prepare(self, installed, base, home)

    def arguments(self, command):
        return {"commands": [command]}


AGENTS = [ClaudeCode(), Codex(), GeminiCli()]
OTHERS = [Copilot(), Qwen(), Opencode(), Cline()]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
