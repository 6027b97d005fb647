//! Channels: where people are told. All that differs between their kinds is here and in the kind's own type: its keys in
//! the configuration file, where it leads, what it sends, and what must not be seen of it.

mod kinds;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use crate::message::Message;
use crate::net::{Call, Endpoint, EndpointError, Reach};
use crate::render;
use crate::rule::ChannelScope;
use crate::sign::SigningSecret;
pub(crate) use kinds::HeaderError;
pub use kinds::{Email, EmailError, GitHub, MailTls, Ntfy, PagerDuty, Telegram, Webhook};

/// A message and its answer must be done within this time, unless a channel says otherwise.
pub const TIMEOUT_USUAL: Duration = Duration::from_secs(10);

/// A channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// What it is.
    pub kind: ChannelKind,
    /// What it may reach beside the public network.
    pub reach: Reach,
    /// Authorities to trust; none = the usual ones.
    pub ca: Vec<CertificateDer<'static>>,
    /// How long a try may take.
    pub timeout: Duration,
}

impl Channel {
    /// A channel with the usual settings: public addresses, usual authorities, 10 s.
    pub fn new(kind: ChannelKind) -> Channel {
        Channel { kind, reach: Reach::default(), ca: Vec::new(), timeout: TIMEOUT_USUAL }
    }

    /// Its type, as the configuration names it.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            ChannelKind::Webhook(_) => "webhook",
            ChannelKind::Slack(_) => "slack",
            ChannelKind::Discord(_) => "discord",
            ChannelKind::Teams(_) => "teams",
            ChannelKind::Telegram(_) => "telegram",
            ChannelKind::Ntfy(_) => "ntfy",
            ChannelKind::PagerDuty(_) => "pagerduty",
            ChannelKind::Email(_) => "email",
            ChannelKind::GitHub(_) => "github",
        }
    }

    /// Where it leads, as far as it may be shown: hosts and addresses, never a path or a token.
    pub fn shown_to(&self) -> String {
        match &self.kind {
            ChannelKind::Webhook(Webhook { endpoint, .. })
            | ChannelKind::PagerDuty(PagerDuty { endpoint, .. })
            | ChannelKind::Slack(endpoint)
            | ChannelKind::Discord(endpoint)
            | ChannelKind::Teams(endpoint) => endpoint.shown(),
            ChannelKind::Telegram(telegram) => format!("chat {}", telegram.chat),
            // Whoever knows the name of a topic may read it.
            ChannelKind::Ntfy(ntfy) => ntfy.server.shown(),
            ChannelKind::Email(email) => {
                let to: Vec<String> = email.to.iter().map(|to| to.email.to_string()).collect();
                to.join(", ")
            }
            ChannelKind::GitHub(github) => format!("{}/{}", github.owner, github.repo),
        }
    }

    /// What it takes.
    pub fn takes(&self) -> ChannelScope {
        if matches!(self.kind, ChannelKind::GitHub(_)) {
            ChannelScope::Escalations
        } else {
            ChannelScope::All
        }
    }
}

/// What a channel is.
#[derive(Clone, Debug)]
pub enum ChannelKind {
    /// JSON, signed as in Standard Webhooks.
    Webhook(Webhook),
    /// A Slack incoming webhook.
    Slack(Endpoint),
    /// A Discord webhook.
    Discord(Endpoint),
    /// A workflow of Microsoft Teams.
    Teams(Endpoint),
    /// A chat of a Telegram bot.
    Telegram(Telegram),
    /// A topic of ntfy.
    Ntfy(Ntfy),
    /// A service of PagerDuty.
    PagerDuty(PagerDuty),
    /// E-mail.
    Email(Box<Email>),
    /// Escalations in a GitHub repository.
    GitHub(GitHub),
}

/// How a message goes out.
pub(crate) enum Sending<'a> {
    /// By one call.
    Call(Result<Call, HeaderError>),
    Mail(&'a Email),
    GitHub(&'a GitHub),
}

impl ChannelKind {
    /// How a message goes out. `now` is the time the receiver is told.
    pub(crate) fn sending(&self, now: i64, message: &Message) -> Sending<'_> {
        let post = |endpoint: &Endpoint, body: Value| Sending::Call(Ok(Call::post(endpoint.clone(), &body)));
        match self {
            ChannelKind::Email(mail) => Sending::Mail(mail),
            ChannelKind::GitHub(repository) => Sending::GitHub(repository),
            ChannelKind::Webhook(webhook) => Sending::Call(webhook.call(now, message)),
            ChannelKind::Slack(endpoint) => post(endpoint, render::slack(message)),
            ChannelKind::Discord(endpoint) => post(endpoint, render::discord(message)),
            ChannelKind::Teams(endpoint) => post(endpoint, render::teams(message)),
            ChannelKind::Telegram(telegram) => Sending::Call(Ok(telegram.call(message))),
            ChannelKind::Ntfy(ntfy) => Sending::Call(ntfy.call(message)),
            ChannelKind::PagerDuty(PagerDuty { endpoint, routing_key }) => {
                post(endpoint, render::pagerduty(message, routing_key.expose_secret()))
            }
        }
    }

    /// What must not be seen in an error.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let mut all: Vec<SecretString> = Vec::new();
        match self {
            ChannelKind::Webhook(Webhook { endpoint, .. })
            | ChannelKind::Slack(endpoint)
            | ChannelKind::Discord(endpoint)
            | ChannelKind::Teams(endpoint) => all.push(endpoint.path().to_owned().into()),
            ChannelKind::Telegram(telegram) => all.push(telegram.token.clone()),
            ChannelKind::Ntfy(ntfy) => all.extend(ntfy.token.clone()),
            ChannelKind::PagerDuty(pagerduty) => all.push(pagerduty.routing_key.clone()),
            ChannelKind::Email(mail) => all.extend(mail.login.as_ref().map(|(_, password)| password.clone())),
            ChannelKind::GitHub(repository) => all.push(repository.token.clone()),
        }
        // A path of a few letters is no secret, and would make every text unreadable.
        all.retain(|secret| secret.expose_secret().len() >= 6);
        all
    }
}

/// The certificates of a file, or why they cannot be read.
pub type Certificates = Result<Vec<CertificateDer<'static>>, Box<dyn Error>>;

/// What the section needs from outside.
pub struct Lookup<'a> {
    /// The value of an environment variable.
    pub secret: &'a dyn Fn(&str) -> Option<SecretString>,
    /// The certificates of a file.
    pub certificates: &'a dyn Fn(&Path) -> Certificates,
}

/// What a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelType {
    /// Signed JSON.
    Webhook,
    /// Slack.
    Slack,
    /// Discord.
    Discord,
    /// Microsoft Teams.
    Teams,
    /// Telegram.
    Telegram,
    /// ntfy.
    Ntfy,
    /// PagerDuty.
    PagerDuty,
    /// E-mail.
    Email,
    /// GitHub, for escalations.
    GitHub,
}

/// How a mail server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTlsIn {
    /// TLS from the first byte.
    Implicit,
    /// STARTTLS, or nothing is sent.
    StartTls,
    /// None.
    None,
}

/// One channel. Which keys it needs depends on its type; `docs/alerts.md` has a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelIn {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ChannelType,
    /// Where to, or the API's base.
    pub url: Option<String>,
    /// The variable that holds the URL, where it is a secret.
    pub url_env: Option<String>,
    /// Webhook: the variables that hold `whsec_` secrets; two while one is replaced.
    #[serde(default)]
    pub secret_env: Vec<String>,
    /// Telegram, ntfy, GitHub: the variable that holds the token; PagerDuty: the integration key.
    pub token_env: Option<String>,
    /// Telegram: the chat.
    pub chat: Option<String>,
    /// ntfy: the topic.
    pub topic: Option<String>,
    /// GitHub: `owner/name`.
    pub repository: Option<String>,
    /// E-mail: the server.
    pub host: Option<String>,
    /// E-mail: its port; 465 or 587 if left out.
    pub port: Option<u16>,
    /// E-mail: how it is spoken to; `starttls` if left out.
    pub tls: Option<MailTlsIn>,
    /// E-mail: who logs in.
    pub user: Option<String>,
    /// E-mail: the variable that holds the password.
    pub password_env: Option<String>,
    /// E-mail: who writes.
    pub from: Option<String>,
    /// E-mail: who is written to.
    #[serde(default)]
    pub to: Vec<String>,
    /// Addresses of private networks may be reached.
    #[serde(default)]
    pub allow_private: bool,
    /// This machine may be reached.
    #[serde(default)]
    pub allow_loopback: bool,
    /// Authorities to trust instead of the usual ones.
    pub ca_file: Option<PathBuf>,
    /// How long a try may take.
    pub timeout_s: Option<u16>,
}

type Wrong = (&'static str, String);

impl ChannelIn {
    pub(crate) fn resolve(&self, lookup: &Lookup<'_>) -> Result<Channel, Wrong> {
        self.check_keys()?;
        let kind = self.kind(lookup)?;
        let ca = match &self.ca_file {
            None => Vec::new(),
            Some(path) => (lookup.certificates)(path).map_err(|error| ("ca_file", error.to_string()))?,
        };
        let timeout = match self.timeout_s {
            None => TIMEOUT_USUAL,
            Some(seconds @ 1..=60) => Duration::from_secs(seconds.into()),
            Some(_) => return Err(("timeout_s", "it must be between 1 and 60".to_owned())),
        };
        let reach = Reach { allow_private: self.allow_private, allow_loopback: self.allow_loopback };
        Ok(Channel { kind, reach, ca, timeout })
    }

    fn kind(&self, lookup: &Lookup<'_>) -> Result<ChannelKind, Wrong> {
        let odd = |key: &'static str| move |error: EndpointError| (key, error.to_string());
        Ok(match self.kind {
            ChannelType::Webhook => {
                let mut secrets = Vec::new();
                for variable in &self.secret_env {
                    let secret = secret("secret_env", variable, lookup)?;
                    let parsed = SigningSecret::parse(&secret);
                    secrets.push(parsed.map_err(|error| ("secret_env", error.to_string()))?);
                }
                ChannelKind::Webhook(Webhook { endpoint: self.endpoint(None, lookup)?, secrets })
            }
            ChannelType::Slack => ChannelKind::Slack(self.endpoint(None, lookup)?),
            ChannelType::Discord => ChannelKind::Discord(self.endpoint(None, lookup)?),
            ChannelType::Teams => ChannelKind::Teams(self.endpoint(None, lookup)?),
            ChannelType::Telegram => {
                let api = self.endpoint(Some("https://api.telegram.org"), lookup)?;
                let chat = needed("chat", self.chat.as_ref())?.clone();
                ChannelKind::Telegram(Telegram::new(api, self.token(lookup)?, chat).map_err(odd("chat"))?)
            }
            ChannelType::Ntfy => {
                let server = self.endpoint(Some("https://ntfy.sh"), lookup)?;
                let topic = needed("topic", self.topic.as_ref())?.clone();
                let token = self.token_env.as_ref().map(|_| self.token(lookup)).transpose()?;
                ChannelKind::Ntfy(Ntfy::new(server, topic, token).map_err(odd("topic"))?)
            }
            ChannelType::PagerDuty => {
                let endpoint = self.endpoint(Some("https://events.pagerduty.com/v2/enqueue"), lookup)?;
                ChannelKind::PagerDuty(PagerDuty { endpoint, routing_key: self.token(lookup)? })
            }
            ChannelType::Email => ChannelKind::Email(Box::new(self.email(lookup)?)),
            ChannelType::GitHub => {
                let api = self.endpoint(Some("https://api.github.com"), lookup)?;
                let repository = needed("repository", self.repository.as_ref())?;
                let github = GitHub::new(api, self.token(lookup)?, repository).map_err(odd("repository"))?;
                ChannelKind::GitHub(github)
            }
        })
    }

    fn email(&self, lookup: &Lookup<'_>) -> Result<Email, Wrong> {
        let tls = match self.tls {
            None | Some(MailTlsIn::StartTls) => MailTls::StartTls,
            Some(MailTlsIn::Implicit) => MailTls::Implicit,
            Some(MailTlsIn::None) => MailTls::None,
        };
        let usual = if tls == MailTls::Implicit { 465 } else { 587 };
        let login = match (&self.user, &self.password_env) {
            (None, None) => None,
            (Some(user), Some(variable)) => Some((user.clone(), secret("password_env", variable, lookup)?)),
            (Some(_), None) => return Err(("password_env", "a user needs a password".to_owned())),
            (None, Some(_)) => return Err(("user", "a password needs a user".to_owned())),
        };
        let host = needed("host", self.host.as_ref())?;
        let from = needed("from", self.from.as_ref())?;
        let server = (host.as_str(), self.port.unwrap_or(usual), tls);
        Email::new(server, login, from, &self.to).map_err(|error| {
            let key = match error {
                EmailError::Host(_) => "host",
                EmailError::From(_) => "from",
                EmailError::Address(_) | EmailError::Recipients => "to",
                EmailError::PlainPassword => "tls",
            };
            (key, error.to_string())
        })
    }

    /// The URL; the usual one if the type has one.
    fn endpoint(&self, usual: Option<&str>, lookup: &Lookup<'_>) -> Result<Endpoint, Wrong> {
        let (key, url): (_, SecretString) = match (&self.url, &self.url_env) {
            (Some(_), Some(_)) => return Err(("url", "give either `url` or `url_env`".to_owned())),
            (Some(url), None) => ("url", url.clone().into()),
            (None, Some(variable)) => ("url_env", secret("url_env", variable, lookup)?),
            (None, None) => {
                let usual = usual.ok_or_else(|| ("url", "it is missing: say where to send".to_owned()))?;
                ("url", usual.to_owned().into())
            }
        };
        Endpoint::parse(url.expose_secret()).map_err(|error| (key, error.to_string()))
    }

    fn token(&self, lookup: &Lookup<'_>) -> Result<SecretString, Wrong> {
        secret("token_env", needed("token_env", self.token_env.as_ref())?, lookup)
    }

    /// A key that this type does not know would be ignored; its writer should hear of that.
    fn check_keys(&self) -> Result<(), Wrong> {
        use ChannelType::{Discord, Email, GitHub, Ntfy, PagerDuty, Slack, Teams, Telegram, Webhook};
        let given: [(&'static str, bool, &[ChannelType]); 13] = [
            ("url", self.url.is_some(), &[Webhook, Slack, Discord, Teams, Telegram, Ntfy, PagerDuty, GitHub]),
            (
                "url_env",
                self.url_env.is_some(),
                &[Webhook, Slack, Discord, Teams, Telegram, Ntfy, PagerDuty, GitHub],
            ),
            ("secret_env", !self.secret_env.is_empty(), &[Webhook]),
            ("token_env", self.token_env.is_some(), &[Telegram, Ntfy, PagerDuty, GitHub]),
            ("chat", self.chat.is_some(), &[Telegram]),
            ("topic", self.topic.is_some(), &[Ntfy]),
            ("repository", self.repository.is_some(), &[GitHub]),
            ("host", self.host.is_some(), &[Email]),
            ("port", self.port.is_some(), &[Email]),
            ("tls", self.tls.is_some(), &[Email]),
            ("user", self.user.is_some() || self.password_env.is_some(), &[Email]),
            ("from", self.from.is_some(), &[Email]),
            ("to", !self.to.is_empty(), &[Email]),
        ];
        let foreign = given.iter().find(|(_, is_given, of)| *is_given && !of.contains(&self.kind));
        match foreign {
            Some((key, ..)) => Err((key, "a channel of this type has no such key".to_owned())),
            None => Ok(()),
        }
    }
}

fn needed<'a, T>(key: &'static str, value: Option<&'a T>) -> Result<&'a T, Wrong> {
    value.ok_or_else(|| (key, "it is missing".to_owned()))
}

fn secret(key: &'static str, variable: &str, lookup: &Lookup<'_>) -> Result<SecretString, Wrong> {
    let found = (lookup.secret)(variable).filter(|secret| !secret.expose_secret().is_empty());
    found.ok_or_else(|| {
        // A secret is easily put where its variable's name belongs: what does not look like a name is not shown.
        let is_capital = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
        let is_name = variable.contains('_') && variable.bytes().all(is_capital);
        let named = if is_name { format!("no variable `{variable}`") } else { "no such variable".to_owned() };
        (key, format!("the environment has {named}: name the variable that holds it"))
    })
}
