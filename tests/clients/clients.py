"""The clients under test: what each is, how it is told the address, and what is known about it."""

import dataclasses
import json
import re

from drivers.cli import CLIS
from install import ENVS


@dataclasses.dataclass
class Sdk:
    """A library, used by a small program in drivers/."""

    name: str
    env: str
    package: str
    script: str
    provider: str
    protocol: str
    # Variables for the driver; {base} is the address of the provider behind estop.
    given: dict
    fast: bool = False
    extra_requests: int = 0
    let_through_max: int = 18
    hides_sentence: bool = False
    note: str = ""
    timeout_s: int = 120

    @property
    def address(self):
        return next(name for name, value in self.given.items() if "{base}" in value)

    def variables(self, base):
        return {name: value.replace("{base}", base) for name, value in self.given.items()}


def openai(**more):
    return {"OPENAI_BASE_URL": "{base}/v1", "OPENAI_API_KEY": "test", **more}


def anthropic(path="", **more):
    return {"ANTHROPIC_BASE_URL": "{base}" + path, "ANTHROPIC_API_KEY": "test", **more}


def gemini(**more):
    return {"GOOGLE_GEMINI_BASE_URL": "{base}", "GEMINI_API_KEY": "test", "GOOGLE_API_KEY": "test", **more}


QUIET_LANGCHAIN = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
QUIET_LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
CHAT, RESPONSES, MESSAGES, GENERATE = "Chat Completions", "Responses", "Messages", "generateContent"

# fmt: off
SDKS = [
    Sdk("py-openai-chat", "py-sdk", "openai", "py_openai_chat.py", "openai", CHAT, openai(), fast=True),
    Sdk("py-openai-responses", "py-sdk", "openai", "py_openai_responses.py", "openai", RESPONSES, openai(), fast=True),
    Sdk("py-anthropic", "py-sdk", "anthropic", "py_anthropic.py", "anthropic", MESSAGES, anthropic(), fast=True),
    Sdk("py-google-genai", "py-sdk", "google-genai", "py_google_genai.py", "gemini", GENERATE, gemini(), fast=True),
    Sdk("py-ollama", "py-sdk", "ollama", "py_ollama.py", "ollama", "Ollama chat", {"OLLAMA_HOST": "{base}"}, fast=True),
    Sdk(
        "py-litellm-openai", "py-frameworks", "litellm", "py_litellm.py", "openai", CHAT,
        openai(CLIENT_MODEL="openai/gpt-4o", **QUIET_LITELLM),
    ),
    Sdk(
        "py-litellm-anthropic", "py-frameworks", "litellm", "py_litellm.py", "anthropic", MESSAGES,
        anthropic(CLIENT_MODEL="anthropic/claude-sonnet-4-5", **QUIET_LITELLM),
    ),
    Sdk(
        "py-langchain-openai", "py-frameworks", "langchain-openai", "py_langchain.py", "openai", CHAT,
        openai(CLIENT_MODEL="openai:gpt-4o", **QUIET_LANGCHAIN),
    ),
    Sdk(
        "py-langchain-anthropic", "py-frameworks", "langchain-anthropic", "py_langchain.py", "anthropic", MESSAGES,
        anthropic(CLIENT_MODEL="anthropic:claude-sonnet-4-5", **QUIET_LANGCHAIN),
    ),
    Sdk(
        "py-langchain-google", "py-frameworks", "langchain-google-genai", "py_langchain.py", "gemini", GENERATE,
        gemini(CLIENT_MODEL="google_genai:gemini-2.5-pro", **QUIET_LANGCHAIN),
    ),
    Sdk(
        "py-langgraph", "py-frameworks", "langgraph", "py_langgraph.py", "openai", CHAT,
        openai(CLIENT_MODEL="openai:gpt-4o", **QUIET_LANGCHAIN),
    ),
    Sdk(
        "py-openai-agents", "py-agents", "openai-agents", "py_openai_agents.py", "openai", RESPONSES,
        openai(OPENAI_AGENTS_DISABLE_TRACING="1"),
    ),
    Sdk(
        "py-pydantic-ai-openai", "py-agents", "pydantic-ai-slim", "py_pydantic_ai.py", "openai", RESPONSES,
        openai(CLIENT_MODEL="openai:gpt-5.4"),
    ),
    Sdk(
        "py-pydantic-ai-anthropic", "py-agents", "pydantic-ai-slim", "py_pydantic_ai.py", "anthropic", MESSAGES,
        anthropic(CLIENT_MODEL="anthropic:claude-sonnet-4-5"),
    ),
    Sdk(
        "py-pydantic-ai-google", "py-agents", "pydantic-ai-slim", "py_pydantic_ai.py", "gemini", GENERATE,
        gemini(CLIENT_MODEL="google:gemini-2.5-pro"),
    ),
    Sdk("node-openai-chat", "node-sdk", "openai", "node_openai_chat.mjs", "openai", CHAT, openai(), fast=True),
    Sdk("node-openai-responses", "node-sdk", "openai", "node_openai_responses.mjs", "openai", RESPONSES, openai()),
    Sdk(
        "node-anthropic", "node-sdk", "@anthropic-ai/sdk", "node_anthropic.mjs", "anthropic", MESSAGES, anthropic(),
        fast=True,
    ),
    Sdk("node-google-genai", "node-sdk", "@google/genai", "node_google_genai.mjs", "gemini", GENERATE, gemini()),
    Sdk(
        "vercel-openai", "node-vercel", "ai", "node_vercel.mjs", "openai", RESPONSES,
        openai(CLIENT_VENDOR="openai"),
    ),
    Sdk(
        "vercel-anthropic", "node-vercel", "ai", "node_vercel.mjs", "anthropic", MESSAGES,
        anthropic("/v1", CLIENT_VENDOR="anthropic"),
        note="its ANTHROPIC_BASE_URL must end in /v1, unlike everybody else's",
    ),
    Sdk(
        "vercel-compatible", "node-vercel", "ai", "node_vercel.mjs", "openai", CHAT,
        {"CLIENT_BASE_URL": "{base}/v1", "CLIENT_VENDOR": "compatible"},
        note="the address is given in code (baseURL)",
    ),
    Sdk(
        "vercel-google", "node-vercel", "ai", "node_vercel.mjs", "gemini", GENERATE,
        {"CLIENT_BASE_URL": "{base}/v1beta", "CLIENT_VENDOR": "google"},
        note="the address is given in code (baseURL)",
    ),
]
# fmt: on

CLIENTS = [*SDKS, *CLIS]


def version(client):
    """The pinned version of a client, from its environment's file."""
    folder = ENVS / client.env
    if (folder / "package.json").exists():
        return json.loads((folder / "package.json").read_text())["dependencies"][client.package]
    pattern = rf"^{re.escape(client.package)}(?:\[.*\])?==(\S+)$"
    return re.search(pattern, (folder / "requirements.txt").read_text(), re.MULTILINE).group(1)
