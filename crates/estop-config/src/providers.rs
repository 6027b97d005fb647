//! Providers (ID-4): where requests go and how they are signed. A client names a provider, never a URL.

use std::collections::BTreeMap;
use std::path::PathBuf;

use estop_core::ids::Name;
use secrecy::SecretString;
use serde::Deserialize;

use super::base_url::BaseUrl;
use super::env::Env;
use super::fault::ValueError;
use super::paths;
use super::secrets;
use super::suggest::closest;
use super::values::{FilePath, Reading, VariableName, given};

/// One provider. What a preset leaves open, or what differs from it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProviderIn {
    #[serde(deserialize_with = "given")]
    pub(super) base_url: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    pub(super) protocol: Option<Protocol>,
    #[serde(deserialize_with = "given")]
    pub(super) api_key_env: Option<VariableName>,
    #[serde(deserialize_with = "given")]
    pub(super) api_key_file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) auth: Option<AuthStyle>,
    #[serde(deserialize_with = "given")]
    pub(super) ca_file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) allow_plain_http: Option<bool>,
    /// Whose prices it has: `free`, or a provider of the price table.
    #[serde(deserialize_with = "given")]
    pub(super) prices: Option<Name>,
}

/// One provider, complete.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The client's path after `/{provider}` is appended to it.
    pub base_url: BaseUrl,
    /// What it speaks where a path alone does not tell.
    pub protocol: Protocol,
    /// How the key is sent.
    pub auth: AuthStyle,
    /// Replaces the client's credentials. `None`: the client's own are passed on.
    pub api_key: Option<SecretString>,
    /// Certificate authorities to trust instead of the usual public ones, in PEM; not read so far.
    pub ca_file: Option<PathBuf>,
}

/// A family of APIs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Protocol {
    #[default]
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

/// The header a key is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthStyle {
    /// `authorization: Bearer KEY`
    Bearer,
    /// `x-api-key: KEY`
    XApiKey,
    /// `x-goog-api-key: KEY`
    XGoogApiKey,
    /// `api-key: KEY`
    ApiKey,
    /// No key at all.
    None,
}

impl Protocol {
    /// How a key is usually sent.
    fn auth(self) -> AuthStyle {
        match self {
            Protocol::OpenAi => AuthStyle::Bearer,
            Protocol::Anthropic => AuthStyle::XApiKey,
            Protocol::Gemini => AuthStyle::XGoogApiKey,
            Protocol::Ollama => AuthStyle::None,
        }
    }
}

/// A provider that is known without being listed.
struct Preset {
    name: &'static str,
    /// `None` if every customer has another.
    base_url: Option<&'static str>,
    protocol: Protocol,
    /// Where it is not the protocol's.
    auth: Option<AuthStyle>,
}

const fn preset(name: &'static str, base_url: &'static str, protocol: Protocol) -> Preset {
    Preset { name, base_url: Some(base_url), protocol, auth: None }
}

const PRESETS: &[Preset] = &[
    preset("openai", "https://api.openai.com", Protocol::OpenAi),
    preset("anthropic", "https://api.anthropic.com", Protocol::Anthropic),
    preset("gemini", "https://generativelanguage.googleapis.com", Protocol::Gemini),
    preset("mistral", "https://api.mistral.ai", Protocol::OpenAi),
    preset("deepseek", "https://api.deepseek.com", Protocol::OpenAi),
    preset("groq", "https://api.groq.com/openai", Protocol::OpenAi),
    preset("xai", "https://api.x.ai", Protocol::OpenAi),
    preset("openrouter", "https://openrouter.ai/api", Protocol::OpenAi),
    preset("together", "https://api.together.xyz", Protocol::OpenAi),
    Preset { name: "azure", base_url: None, protocol: Protocol::OpenAi, auth: Some(AuthStyle::ApiKey) },
    // What Codex asks when it is logged in with ChatGPT.
    preset("chatgpt", "https://chatgpt.com/backend-api/codex", Protocol::OpenAi),
    preset("moonshot", "https://api.moonshot.ai", Protocol::OpenAi),
    preset("ollama", "http://127.0.0.1:11434", Protocol::Ollama),
];

/// First parts of paths that mean something else on the data port.
const RESERVED: &[&str] = &["agents", "runs", "relay", "mcp", "api", "healthz", "readyz", "metrics"];

/// All providers: the presets that need nothing, and those the configuration names.
pub(super) fn providers(
    named: &BTreeMap<Box<str>, Option<ProviderIn>>,
    env: &Env,
) -> Result<BTreeMap<String, Provider>, ValueError> {
    let nothing = ProviderIn::default();
    let mut providers = BTreeMap::new();
    for preset in PRESETS.iter().filter(|preset| preset.base_url.is_some()) {
        if !named.contains_key(preset.name) {
            providers.insert(preset.name.to_owned(), provider(preset.name, &nothing, env)?);
        }
    }
    for (name, given) in named {
        check_name(name)?;
        providers.insert(name.to_string(), provider(name, given.as_ref().unwrap_or(&nothing), env)?);
    }
    Ok(providers)
}

fn check_name(name: &str) -> Result<(), ValueError> {
    let refused = |message: String| Err(ValueError::new(&["providers", name], message));
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.starts_with(is_plain) && name.chars().all(|c| is_plain(c) || "_-".contains(c));
    if !is_name || name.len() > 32 {
        return refused(format!(
            "`{name}` cannot be a provider's name: it is part of a URL, so it has 1 to 32 small letters, digits, `-` and `_`, and begins with a letter or digit"
        ));
    }
    if RESERVED.contains(&name) {
        return refused(format!(
            "no provider may be called `{name}`: paths that begin with /{name} have another meaning"
        ));
    }
    Ok(())
}

/// One provider: what is given, else what its preset says, else what its protocol usually has.
fn provider(name: &str, given: &ProviderIn, env: &Env) -> Result<Provider, ValueError> {
    let preset = PRESETS.iter().find(|preset| preset.name == name);
    let protocol = given.protocol.or(preset.map(|preset| preset.protocol)).unwrap_or_default();
    let preset_auth = preset.filter(|preset| preset.protocol == protocol).and_then(|preset| preset.auth);
    let auth = given.auth.or(preset_auth).unwrap_or(protocol.auth());
    Ok(Provider {
        base_url: base_url(name, given, preset)?,
        protocol,
        auth,
        api_key: api_key(name, given, auth, env)?,
        ca_file: match &given.ca_file {
            Some(path) => Some(paths::expanded(path, &["providers", name, "ca_file"], env)?),
            None => None,
        },
    })
}

fn base_url(name: &str, given: &ProviderIn, preset: Option<&Preset>) -> Result<BaseUrl, ValueError> {
    let Some(url) = &given.base_url else {
        let known = preset.and_then(|preset| preset.base_url);
        return known.map(preset_url).ok_or_else(|| no_base_url(name, preset));
    };
    if url.is_https() || url.is_loopback() || given.allow_plain_http == Some(true) {
        return Ok(url.clone());
    }
    let message =
        format!("providers.{name}.base_url: http to another machine sends keys and prompts in clear");
    let help = "Use https, or set `allow_plain_http: true` in this provider if the network between is yours.";
    Err(ValueError::new(&["providers", name, "base_url"], message).with_help(help.to_owned()))
}

fn preset_url(url: &str) -> BaseUrl {
    BaseUrl::read(url).expect("the presets' URLs are valid")
}

fn no_base_url(name: &str, preset: Option<&Preset>) -> ValueError {
    let names = PRESETS.iter().map(|preset| preset.name);
    let help = match (preset, closest(name, names.clone())) {
        (Some(_), _) => {
            format!("Every customer of `{name}` has another, such as https://NAME.openai.azure.com")
        }
        (None, Some(meant)) => format!("did you mean the preset `{meant}`?"),
        (None, None) => format!(
            "Presets that need none: {}",
            names.filter(|name| *name != "azure").collect::<Vec<_>>().join(", ")
        ),
    };
    ValueError::new(&["providers", name], format!("provider `{name}` needs a base_url")).with_help(help)
}

fn api_key(
    name: &str,
    given: &ProviderIn,
    auth: AuthStyle,
    env: &Env,
) -> Result<Option<SecretString>, ValueError> {
    let (source, key) = match (&given.api_key_env, &given.api_key_file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message = format!("provider `{name}` has both api_key_env and api_key_file; leave one out");
            return Err(ValueError::new(&["providers", name, "api_key_file"], message));
        }
        (Some(variable), None) => {
            let help = "Set it where estop starts, or leave api_key_env out: then the client's own key is passed on.";
            let key = secrets::from_variable(variable, &["providers", name, "api_key_env"], env);
            ("api_key_env", key.map_err(|fault| fault.with_help(help.to_owned())))
        }
        (None, Some(path)) => {
            let keys = &["providers", name, "api_key_file"];
            (
                "api_key_file",
                paths::expanded(path, keys, env).and_then(|path| secrets::from_file(&path, keys)),
            )
        }
    };
    if auth == AuthStyle::None {
        let message =
            format!("provider `{name}` has {source}, but its auth is `none`, so the key would not be sent");
        let help = "Set `auth`, such as `auth: bearer`, or leave the key out.";
        return Err(ValueError::new(&["providers", name, source], message).with_help(help.to_owned()));
    }
    key.map(Some)
}
