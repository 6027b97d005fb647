//! opencode reads its configuration from a variable, too, and joins it with its files.

use anyhow::{Context, bail};
use estop_wire::hooks::HookClient;
use serde_json::{Map, Value, json};

use super::base_urls::BaseUrls;
use super::environment::Environment;
use crate::install::settings::{Scope, with_hooks};

/// opencode's configuration as a variable.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

/// Points its model calls at estop.
pub(super) fn point(environment: &mut Environment, urls: &BaseUrls<'_>) {
    let Some(mut config) = config(environment) else {
        return environment.say(format!(
            "{CONFIG} is no JSON object and stays: opencode's model calls do NOT go through estop."
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
    environment.set(CONFIG, &Value::Object(config).to_string());
}

/// Its hooks, as a plugin for this run.
pub(super) fn hooks(environment: &mut Environment, estop: &[String]) -> anyhow::Result<()> {
    let text = with_hooks(HookClient::Opencode, Scope::User, estop, None)?;
    let path = environment.folder.write("estop.js", &text)?;
    let mut config = config(environment).with_context(|| format!("{CONFIG} is no JSON object"))?;
    let plugin = json!(format!("file://{}", path.display()));
    let plugins = config.entry("plugin").or_insert_with(|| json!([]));
    match plugins.as_array_mut() {
        Some(plugins) => plugins.push(plugin),
        None => bail!("`plugin` in {CONFIG} is no list"),
    }
    environment.set(CONFIG, &Value::Object(config).to_string());
    Ok(())
}

/// What the variable gives it; `None` if that is no object.
fn config(environment: &Environment) -> Option<Map<String, Value>> {
    let given = environment.variable(CONFIG).unwrap_or_else(|| "{}".to_owned());
    serde_json::from_str(&given).ok()
}

/// The object under a key, made if nothing is there.
fn inner<'a>(object: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    object.entry(key).or_insert_with(|| json!({})).as_object_mut()
}
