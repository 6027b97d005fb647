//! Channels: where people are told, as the configuration says it. Checked once, when they are made.

use std::time::Duration;

use lettre::message::Mailbox;
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};

use crate::net::{Endpoint, EndpointError, Reach};
use crate::rule::Takes;
use crate::sign::SigningSecret;

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
    pub fn takes(&self) -> Takes {
        if matches!(self.kind, ChannelKind::GitHub(_)) { Takes::Escalations } else { Takes::All }
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

/// A webhook for programs.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where to.
    pub endpoint: Endpoint,
    /// Secrets to sign with; two while one is being replaced.
    pub secrets: Vec<SigningSecret>,
}

/// A chat of a Telegram bot.
#[derive(Clone, Debug)]
pub struct Telegram {
    pub(crate) api: Endpoint,
    pub(crate) token: SecretString,
    pub(crate) chat: String,
}

impl Telegram {
    /// The bot's token, and the chat's number or `@name`.
    pub fn new(api: Endpoint, token: SecretString, chat: String) -> Result<Telegram, EndpointError> {
        let is_fit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b':' | b'_' | b'-');
        let fits = |text: &str| !text.is_empty() && text.bytes().all(is_fit);
        if !fits(token.expose_secret()) || !fits(chat.strip_prefix('@').unwrap_or(&chat)) {
            return Err(EndpointError::OddText);
        }
        Ok(Telegram { api, token, chat })
    }
}

/// A topic of ntfy.
#[derive(Clone, Debug)]
pub struct Ntfy {
    pub(crate) server: Endpoint,
    pub(crate) topic: String,
    pub(crate) token: Option<SecretString>,
}

impl Ntfy {
    /// The server, the topic and, if the topic is protected, a token.
    pub fn new(server: Endpoint, topic: String, token: Option<SecretString>) -> Result<Ntfy, EndpointError> {
        let is_fit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
        let fits = (1..=64).contains(&topic.len()) && topic.bytes().all(is_fit);
        let token_fits = token.as_ref().is_none_or(|token| is_header(token.expose_secret()));
        (fits && token_fits).then_some(Ntfy { server, topic, token }).ok_or(EndpointError::OddText)
    }
}

/// A service of PagerDuty.
#[derive(Clone, Debug)]
pub struct PagerDuty {
    /// The Events API; usually `https://events.pagerduty.com/v2/enqueue`.
    pub endpoint: Endpoint,
    /// The service's integration key.
    pub routing_key: SecretString,
}

/// How a mail server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// TLS from the first byte (port 465).
    Implicit,
    /// STARTTLS, or nothing is sent (port 587).
    StartTls,
    /// None at all: only to this machine or a private network that is allowed, and without a password.
    None,
}

/// E-mail.
#[derive(Clone, Debug)]
pub struct Email {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: MailTls,
    pub(crate) login: Option<(String, SecretString)>,
    pub(crate) from: Mailbox,
    pub(crate) to: Vec<Mailbox>,
}

/// Why mail settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmailError {
    /// The host is odd.
    #[error("the mail server's host cannot be used: {0}")]
    Host(EndpointError),
    /// The writer's address cannot be read.
    #[error("`{0}` is not a mail address like `estop <estop@example.com>`")]
    From(String),
    /// An address cannot be read.
    #[error("`{0}` is not a mail address like `Anna <anna@example.com>`")]
    Address(String),
    /// Nobody to send to, or too many.
    #[error("there must be between 1 and 50 addresses to send to")]
    Recipients,
    /// A password would be readable on the way.
    #[error("a password is not sent without TLS: set `tls: starttls` or `tls: implicit`")]
    PlainPassword,
}

impl Email {
    /// Checks mail settings.
    pub fn new(
        (host, port, tls): (&str, u16, MailTls),
        login: Option<(String, SecretString)>,
        from: &str,
        to: &[String],
    ) -> Result<Email, EmailError> {
        let host = crate::net::host(host).map_err(EmailError::Host)?;
        let mailbox = |text: &str| {
            let is_plain = !text.chars().any(char::is_control);
            let parsed = text.parse::<Mailbox>().ok().filter(|_| is_plain);
            parsed.ok_or_else(|| crate::plain::one_line(text, 80))
        };
        let from = mailbox(from).map_err(EmailError::From)?;
        let to = to.iter().map(|text| mailbox(text)).collect::<Result<Vec<_>, _>>();
        let to = to.map_err(EmailError::Address)?;
        if !(1..=50).contains(&to.len()) {
            return Err(EmailError::Recipients);
        }
        if login.is_some() && tls == MailTls::None {
            return Err(EmailError::PlainPassword);
        }
        Ok(Email { host, port, tls, login, from, to })
    }
}

/// Escalations in a GitHub repository.
#[derive(Clone, Debug)]
pub struct GitHub {
    pub(crate) api: Endpoint,
    pub(crate) token: SecretString,
    pub(crate) owner: String,
    pub(crate) repo: String,
}

impl GitHub {
    /// The API (usually `https://api.github.com`), a token that may write issues and statuses, and `owner/name`.
    pub fn new(api: Endpoint, token: SecretString, repository: &str) -> Result<GitHub, EndpointError> {
        let is_fit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        let fits = |text: &str| {
            (1..=100).contains(&text.len()) && text.bytes().all(is_fit) && !text.starts_with('.')
        };
        let (owner, repo) = repository.split_once('/').ok_or(EndpointError::OddText)?;
        if !fits(owner) || !fits(repo) || !is_header(token.expose_secret()) {
            return Err(EndpointError::OddText);
        }
        Ok(GitHub { api, token, owner: owner.to_owned(), repo: repo.to_owned() })
    }
}

/// Whether a secret can stand in a header.
fn is_header(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| (0x21..=0x7e).contains(&c))
}
