//! Relays of messages (KS-10): which app and which platform each connects, and as which agent. A client names a
//! relay, never a URL.

use std::collections::BTreeMap;
use std::net::IpAddr;

use estop_core::ids::Name;
use estop_wire::agent_name::is_agent_name;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::base_url::BaseUrl;
use super::env::Env;
use super::fault::ValueError;
use super::listen::Listen;
use super::paths;
use super::secrets;
use super::values::{Count, FilePath, Reading, VariableName, given};

/// One relay of messages.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RelayIn {
    #[serde(deserialize_with = "given")]
    pub(super) kind: Option<RelayKind>,
    #[serde(rename = "in", deserialize_with = "given")]
    pub(super) into: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    pub(super) out: Option<BaseUrl>,
    #[serde(deserialize_with = "given")]
    pub(super) agent: Option<Name>,
    #[serde(deserialize_with = "given")]
    pub(super) secret_path_env: Option<VariableName>,
    #[serde(deserialize_with = "given")]
    pub(super) secret_path_file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    pub(super) concurrency: Option<Count>,
    #[serde(deserialize_with = "given")]
    pub(super) allow_plain_http: Option<bool>,
}

/// One relay, complete. It has at least one of `into` and `out`.
#[derive(Clone, Debug)]
pub struct Relay {
    /// The app: what comes after `/relay/{name}/in` is appended to it.
    pub into: Option<BaseUrl>,
    /// The platform: what comes after `/relay/{name}/out` is appended to it.
    pub out: Option<BaseUrl>,
    /// Whose messages they are.
    pub agent: Name,
    /// What must stand in the path of what comes in.
    pub secret: Option<SecretString>,
    /// Messages under way at once, each way.
    pub concurrency: usize,
}

/// A platform, which decides where messages go unless `out` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum RelayKind {
    Telegram,
    Slack,
    Discord,
    #[default]
    Generic,
}

impl RelayKind {
    /// Where its API is; `None` if anything may be meant.
    fn out(self) -> Option<&'static str> {
        match self {
            RelayKind::Telegram => Some("https://api.telegram.org"),
            RelayKind::Slack => Some("https://slack.com/api"),
            RelayKind::Discord => Some("https://discord.com/api"),
            RelayKind::Generic => None,
        }
    }
}

/// Chosen: Telegram opens at most 100 connections to a webhook. At half, its largest setting is refused; at double, one
/// relay can fill half of what its agent may have under way.
const CONCURRENCY: usize = 100;
/// Shorter ones can be tried out: 16 characters of 64 kinds are 96 bits.
const SECRET_MIN: usize = 16;

/// All relays the configuration names.
pub(super) fn relays(
    named: &BTreeMap<Name, RelayIn>,
    listen: &Listen,
    env: &Env,
) -> Result<BTreeMap<String, Relay>, ValueError> {
    let one = |(name, given): (&Name, &RelayIn)| Ok((name.to_string(), relay(name, given, listen, env)?));
    named.iter().map(one).collect()
}

fn relay(name: &str, given: &RelayIn, listen: &Listen, env: &Env) -> Result<Relay, ValueError> {
    check_name(name)?;
    let kind = given.kind.unwrap_or_default();
    let out = match &given.out {
        Some(url) => Some(url.clone()),
        None => kind.out().map(|url| BaseUrl::read(url).expect("the presets' URLs are valid")),
    };
    if given.into.is_none() && out.is_none() {
        let message = format!("relay `{name}` has no direction: it has neither `in` nor `out`");
        let help =
            "Set `in` to the app's URL and `out` to the platform's, or `kind` to telegram, slack or discord.";
        return Err(ValueError::new(&["relays", name], message).with_help(help.to_owned()));
    }
    for (key, url) in [("in", &given.into), ("out", &given.out)] {
        if let Some(url) = url {
            check_target(name, key, url, given.allow_plain_http == Some(true), listen)?;
        }
    }
    Ok(Relay {
        agent: agent(name, given)?,
        secret: secret(name, given, env)?,
        concurrency: given.concurrency.map_or(CONCURRENCY, estop_core::policy_file::Number::get),
        into: given.into.clone(),
        out,
    })
}

fn check_name(name: &str) -> Result<(), ValueError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.starts_with(is_plain) && name.chars().all(|c| is_plain(c) || "_-".contains(c));
    if is_name && name.len() <= 32 {
        return Ok(());
    }
    let message = format!(
        "`{name}` cannot be a relay's name: it is part of a URL, so it has 1 to 32 small letters, digits, `-` and `_`, and begins with a letter or digit"
    );
    Err(ValueError::new(&["relays", name], message))
}

/// What is sent there is not overheard, and does not come back to estop.
fn check_target(
    name: &str,
    key: &str,
    url: &BaseUrl,
    allow_plain_http: bool,
    listen: &Listen,
) -> Result<(), ValueError> {
    let keys = ["relays", name, key];
    if !url.is_https() && !url.is_loopback() && !allow_plain_http {
        let message =
            format!("relays.{name}.{key}: http to another machine sends messages and tokens in clear");
        let help =
            "Use https, or set `allow_plain_http: true` in this relay if the network between is yours.";
        return Err(ValueError::new(&keys, message).with_help(help.to_owned()));
    }
    let is_here = |ip: IpAddr| {
        url.host().parse() == Ok(ip) || url.is_loopback() && (ip.is_loopback() || ip.is_unspecified())
    };
    let is_ours = |own: std::net::SocketAddr| own.port() == url.port() && is_here(own.ip());
    if is_ours(listen.data) || is_ours(listen.admin) {
        let message = format!("relays.{name}.{key} ({url}) is estop itself, so messages would go in circles");
        return Err(ValueError::new(&keys, message).with_help("Name the app or the platform.".to_owned()));
    }
    Ok(())
}

fn agent(name: &str, given: &RelayIn) -> Result<Name, ValueError> {
    let agent: &str = given.agent.as_deref().unwrap_or(name);
    if is_agent_name(agent) {
        return Ok(agent.into());
    }
    let message = format!("relay `{name}` cannot act as the agent `{agent}`");
    let help = "Set `agent` to 1 to 64 letters, digits, `.`, `_` or `-`, and not to `system`.";
    Err(ValueError::new(&["relays", name, "agent"], message).with_help(help.to_owned()))
}

fn secret(name: &str, given: &RelayIn, env: &Env) -> Result<Option<SecretString>, ValueError> {
    let (key, secret) = match (&given.secret_path_env, &given.secret_path_file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            let message =
                format!("relay `{name}` has both secret_path_env and secret_path_file; leave one out");
            return Err(ValueError::new(&["relays", name, "secret_path_file"], message));
        }
        (Some(variable), None) => {
            let keys = ["relays", name, "secret_path_env"];
            ("secret_path_env", secrets::from_variable(variable, &keys, env)?)
        }
        (None, Some(path)) => {
            let keys = ["relays", name, "secret_path_file"];
            ("secret_path_file", secrets::from_file(&paths::expanded(path, &keys, env)?, &keys)?)
        }
    };
    let keys = ["relays", name, key];
    let wrong = |what: &str| {
        let message = format!("relays.{name}.{key}: {what}");
        ValueError::new(&keys, message).with_help("Make one with `openssl rand -hex 32`.".to_owned())
    };
    if given.into.is_none() {
        let message = format!("relays.{name}.{key}: this relay has no `in`, which the secret would be for");
        return Err(
            ValueError::new(&keys, message).with_help("Set `in`, or leave the secret out.".to_owned())
        );
    }
    let text = secret.expose_secret();
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        return Err(wrong("the secret is part of a URL, so it has letters, digits, `-` and `_` only"));
    }
    if text.len() < SECRET_MIN {
        return Err(wrong("the secret is too short: it needs 16 characters at least"));
    }
    Ok(Some(secret))
}
