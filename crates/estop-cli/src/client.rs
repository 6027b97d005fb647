//! How a command reaches the running estop: one HTTP client for its admin API.
//!
//! | file | |
//! |---|---|
//! | `endpoint` | where estop is: the owner's socket in the data directory, or its admin port |
//! | `daemon`, `caller` | which endpoint and token: by the options of a command, or of what coding agents start |
//! | `transport`, `watch`, `recording` | one request and its answer; the line that says when a run must end; the one that an agent is recorded on |
//! | `error`, `refusal`, `on_unreachable` | why there is no answer, estop's own no, and what becomes of tools then |
//!
//! It never retries: whoever asked decides what a failure means.

mod admin_token;
mod caller;
mod daemon;
mod endpoint;
mod error;
mod on_unreachable;
mod path;
mod recording;
mod refusal;
mod transport;
mod watch;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH};
use http::{HeaderValue, Method, Request};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) use admin_token::AdminTokenArg;
pub(crate) use caller::{Caller, CallerOptions, variable};
pub(crate) use daemon::{Daemon, DaemonArgs, Listing, Whereabouts, list_limit};
pub use endpoint::BadTarget;
pub(crate) use endpoint::Endpoint;
pub use error::ClientError;
use error::TransportError;
pub use on_unreachable::OnUnreachable;
pub(crate) use on_unreachable::UnreachableRule;
pub use path::{path, with_query};
pub(crate) use recording::RecordingEnd;
pub use refusal::Refusal;
pub(crate) use transport::{Received, Transport, post};
pub(crate) use watch::{Opened, WatchMessage};

/// An answer takes milliseconds; who waits longer waits for a machine in trouble.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Knows where estop is, and what to show there.
pub struct Client {
    transport: Transport,
    within: Duration,
    runtime: Runtime,
}

/// The token does not show itself.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.transport.endpoint).finish_non_exhaustive()
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The method.
    pub method: Method,
    /// Path and query, encoded: see [`path`] and [`with_query`].
    pub target: String,
    /// The body.
    pub body: Option<&'a Value>,
    /// The version that was seen.
    pub if_match: Option<&'a str>,
}

impl Ask<'_> {
    /// Without a body, whatever the version.
    pub fn new(method: Method, target: String) -> Self {
        Ask { method, target, body: None, if_match: None }
    }
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The body; null if there was none.
    pub json: Value,
    /// Its version.
    pub etag: Option<String>,
}

impl Client {
    /// Through the owner's socket.
    pub fn to_socket(socket: &Path) -> std::io::Result<Client> {
        Client::over(Transport::new(Endpoint::Socket(socket.to_owned())))
    }

    /// To the admin port: `http://host:port`.
    pub fn to_url(url: &str, token: Option<&SecretString>) -> anyhow::Result<Client> {
        Client::over(Transport::new(Endpoint::from_url(url)?))?.bearing(token)
    }

    pub(crate) fn over(transport: Transport) -> std::io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { transport, within: TIME_LIMIT, runtime })
    }

    /// The same with a token: over the owner's socket, what unlocks the button asks for one too.
    pub fn bearing(mut self, token: Option<&SecretString>) -> anyhow::Result<Client> {
        if let Some(token) = token {
            self.transport.headers.insert(AUTHORIZATION, bearer(token)?);
        }
        Ok(self)
    }

    /// With less patience, or more.
    #[must_use]
    pub fn within(self, within: Duration) -> Client {
        Client { within, ..self }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&self, ask: &Ask<'_>) -> Result<Answer, ClientError> {
        let request = request(ask).map_err(|error| ClientError::Unreachable(error.to_string()))?;
        self.judge(self.exchange(request)?)
    }

    /// Asks, and gives the answer as it came.
    pub(crate) fn exchange(&self, request: Request<Bytes>) -> Result<Received, TransportError> {
        self.runtime.block_on(self.transport.exchange(request, self.within))
    }

    /// Whether anything answers at all; a daemon listens before it knows whether it can start.
    pub(crate) fn is_answered(&self) -> bool {
        let health = Ask::new(Method::GET, "/healthz".to_owned());
        request(&health).is_ok_and(|request| self.exchange(request).is_ok())
    }

    fn judge(&self, received: Received) -> Result<Answer, ClientError> {
        let Received { status, headers, body } = received;
        let strange = || {
            let place = &self.transport.endpoint;
            ClientError::Unreachable(format!(
                "what answers at {place} is not estop's admin API (status {}): check the port. The admin port is \
                 `listen.admin` of the configuration, 4101 by default.",
                status.as_u16()
            ))
        };
        if !status.is_success() {
            let refusal = Refusal::read(status, &body).ok_or_else(strange)?;
            let is_of_socket = matches!(self.transport.endpoint, Endpoint::Socket(_));
            return Err(ClientError::Refused(refusal.of_socket(is_of_socket)));
        }
        let json = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).map_err(|_| strange())?
        };
        let etag = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        Ok(Answer { json, etag })
    }
}

fn request(ask: &Ask<'_>) -> http::Result<Request<Bytes>> {
    let mut request = Request::builder().method(&ask.method).uri(&ask.target);
    if let Some(tag) = ask.if_match {
        request = request.header(IF_MATCH, tag);
    }
    match ask.body {
        Some(body) => request.header(CONTENT_TYPE, "application/json").body(body.to_string().into()),
        None => request.body(Bytes::new()),
    }
}

fn bearer(token: &SecretString) -> Result<HeaderValue, BadTarget> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
    let mut value =
        value.map_err(|_| BadTarget("the token has characters that no token has: copy it again".into()))?;
    value.set_sensitive(true);
    Ok(value)
}
