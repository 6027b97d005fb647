//! Clients that need more than variables, recognised by the program's name. Their own files stay as they are.

use std::ffi::{OsStr, OsString};

use serde_json::{Map, Value, json};

use super::base_urls::BaseUrls;
use super::codex;
use super::outfit::Outfit;
use super::project::base_name;

/// A client we know by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    ClaudeCode,
    Codex,
    GeminiCli,
    Copilot,
    Qwen,
    Cline,
    Opencode,
    OpenClaw,
    Cursor,
    /// Any other program: the variables do, or nothing does.
    Other,
}

impl Client {
    pub(super) fn of(program: &OsStr) -> Client {
        match base_name(program).as_str() {
            "claude" => Client::ClaudeCode,
            "codex" => Client::Codex,
            "gemini" => Client::GeminiCli,
            "copilot" => Client::Copilot,
            "qwen" => Client::Qwen,
            "cline" => Client::Cline,
            "opencode" => Client::Opencode,
            "openclaw" => Client::OpenClaw,
            "cursor-agent" => Client::Cursor,
            _ => Client::Other,
        }
    }
}

/// Gives a client what it needs beside variables, and says what cannot be given.
pub(super) fn dress(client: Client, outfit: &mut Outfit, urls: &BaseUrls<'_>) {
    match client {
        Client::Codex => codex::point(outfit, urls),
        Client::Opencode => opencode(outfit, urls),
        Client::GeminiCli if !has_key(outfit, &["GEMINI_API_KEY", "GOOGLE_API_KEY"]) => outfit.say(
            "Gemini CLI with a Google login asks Google's own servers: those model calls do NOT go through estop. With \
             GEMINI_API_KEY they do.",
        ),
        Client::Copilot if outfit.variable("COPILOT_PROVIDER_BASE_URL").is_none() => outfit.say(
            "Copilot with a GitHub login asks GitHub's own servers: those model calls do NOT go through estop. With \
             COPILOT_PROVIDER_BASE_URL and a model of your own they do.",
        ),
        Client::Cline => outfit.say(format!(
            "Cline keeps its base URL in its own settings: model calls go through estop after `cline auth -p openai -k KEY -m \
             MODEL -b {}/agents/{}/openai/v1`.",
            urls.data_url,
            outfit.variable("ESTOP_AGENT").unwrap_or_default()
        )),
        Client::OpenClaw => outfit.say(format!(
            "OpenClaw keeps its base URLs in its own settings: model calls go through estop once \
             models.providers.NAME.baseUrl in openclaw.json is {}/agents/{}/openai/v1.",
            urls.data_url,
            outfit.variable("ESTOP_AGENT").unwrap_or_default()
        )),
        Client::Cursor => outfit.say("Cursor asks its own servers: its model calls do NOT go through estop."),
        Client::ClaudeCode | Client::GeminiCli | Client::Copilot | Client::Qwen | Client::Other => {}
    }
}

fn has_key(outfit: &Outfit, variables: &[&str]) -> bool {
    variables.iter().any(|variable| outfit.variable(variable).is_some())
}

/// opencode reads its configuration from a variable, too, and joins it with its files.
fn opencode(outfit: &mut Outfit, urls: &BaseUrls<'_>) {
    let Some(mut config) = opencode_config(outfit) else {
        return outfit.say(format!(
            "{OPENCODE} is no JSON object and stays: opencode's model calls do NOT go through estop."
        ));
    };
    for (provider, url) in [
        ("openai", urls.of("openai", "/v1")),
        ("anthropic", urls.of("anthropic", "/v1")),
        ("google", urls.of("gemini", "/v1beta")),
        ("openrouter", urls.of("openrouter", "/v1")),
    ] {
        let options = inner(&mut config, "provider").and_then(|all| inner(all, provider));
        // What the person set there stays.
        if let Some(options) = options.and_then(|provider| inner(provider, "options")) {
            options.entry("baseURL").or_insert_with(|| json!(url));
        }
    }
    outfit.set(OPENCODE, &Value::Object(config).to_string());
}

/// What opencode is given by the variable; `None` if that is no object.
pub(super) fn opencode_config(outfit: &Outfit) -> Option<Map<String, Value>> {
    let given = outfit.variable(OPENCODE).unwrap_or_else(|| "{}".to_owned());
    serde_json::from_str(&given).ok()
}

/// The object under a key, made if nothing is there.
fn inner<'a>(object: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    object.entry(key).or_insert_with(|| json!({})).as_object_mut()
}

/// opencode's configuration as a variable.
pub(super) const OPENCODE: &str = "OPENCODE_CONFIG_CONTENT";

/// Puts options right after the program, before its own arguments.
pub(super) fn put_first(outfit: &mut Outfit, options: Vec<OsString>) {
    outfit.args.splice(0..0, options);
}
