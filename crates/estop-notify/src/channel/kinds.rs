//! What each kind of channel needs, checked when it is made, and how it is called.

use http::HeaderValue;
use http::header::AUTHORIZATION;
use lettre::message::Mailbox;
use secrecy::{ExposeSecret, SecretString};

use crate::message::Message;
use crate::net::{Call, Endpoint, EndpointError};
use crate::sign::SigningSecret;
use crate::{render, sign};

/// Why a call cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    #[error("the message's id cannot stand in a header")]
    MessageId,
    #[error("the token cannot stand in a header")]
    Token,
}

/// A webhook for programs.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where to.
    pub endpoint: Endpoint,
    /// Secrets to sign with; two while one is being replaced.
    pub secrets: Vec<SigningSecret>,
}

impl Webhook {
    pub(super) fn call(&self, now: i64, message: &Message) -> Result<Call, HeaderError> {
        let Webhook { endpoint, secrets } = self;
        let call = Call::post(endpoint.clone(), &render::generic(message));
        let timestamp = now.div_euclid(1000);
        let header = |text: &str| HeaderValue::from_str(text).map_err(|_| HeaderError::MessageId);
        let signature = sign::signatures(secrets, &message.id, timestamp, &call.body);
        let call = call
            .with("webhook-id", header(&message.id)?)
            .with("webhook-timestamp", header(&timestamp.to_string())?);
        if signature.is_empty() {
            return Ok(call);
        }
        Ok(call.with("webhook-signature", header(&signature)?))
    }
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

    pub(super) fn call(&self, message: &Message) -> Call {
        let endpoint = self.api.below(&format!("/bot{}/sendMessage", self.token.expose_secret()));
        Call::post(endpoint, &render::telegram(message, &self.chat))
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

    pub(super) fn call(&self, message: &Message) -> Result<Call, HeaderError> {
        let mut call = Call::post(self.server.below("/"), &render::ntfy(message, &self.topic));
        if let Some(token) = &self.token {
            let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
                .map_err(|_| HeaderError::Token)?;
            bearer.set_sensitive(true);
            call.headers.push((AUTHORIZATION, bearer));
        }
        Ok(call)
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
