//! How a command reaches the running estop: a small HTTP client for its admin API.
//!
//! It goes through the owner's socket in the data directory, where only unlocking the button asks for a token, or to a URL
//! with a token.
//! It never retries: whoever asked decides what a failure means.

mod daemon;
mod exchange;
mod path;
mod refusal;

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, IF_MATCH};
use http::{HeaderValue, Method, Request};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) use daemon::{Daemon, DaemonArgs, Listing, Whereabouts};
use exchange::{Received, exchange};
pub use path::{path, with_query};
pub use refusal::Refusal;
pub(crate) use refusal::own_detail;

/// An answer takes milliseconds; who waits longer waits for a machine in trouble.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no answer to show.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered, or not estop.
    #[error("{0}")]
    Unreachable(String),
    /// estop said no.
    #[error("{0}")]
    Refused(Refusal),
}

/// What cannot be used to reach estop.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(String);

/// Knows where estop is, and what to show there.
pub struct Client {
    way: Way,
    token: Option<HeaderValue>,
    within: Duration,
    runtime: Runtime,
}

/// The token does not show itself.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("way", &self.way).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
enum Way {
    Socket(PathBuf),
    Tcp { host: String, port: u16, authority: String },
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
        Ok(Client {
            way: Way::Socket(socket.to_owned()),
            token: None,
            within: TIME_LIMIT,
            runtime: runtime()?,
        })
    }

    /// The same with a token: over the owner's socket, what unlocks the button asks for one too.
    pub fn bearing(self, token: Option<&SecretString>) -> anyhow::Result<Client> {
        Ok(Client { token: token.map(bearer).transpose()?, ..self })
    }

    /// To the admin port: `http://host:port`.
    pub fn to_url(url: &str, token: Option<&SecretString>) -> anyhow::Result<Client> {
        let way = way_to(url)?;
        Ok(Client { way, token: token.map(bearer).transpose()?, within: TIME_LIMIT, runtime: runtime()? })
    }

    /// With less patience, or more.
    #[must_use]
    pub fn within(self, within: Duration) -> Client {
        Client { within, ..self }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&self, ask: &Ask<'_>) -> Result<Answer, ClientError> {
        let request = self.request(ask).map_err(|error| ClientError::Unreachable(error.to_string()))?;
        let received = self.runtime.block_on(async {
            match tokio::time::timeout(self.within, exchange(&self.way, request)).await {
                Ok(received) => received,
                Err(_) => {
                    let seconds = self.within.as_secs_f32();
                    Err(format!("estop did not answer within {seconds} s ({}).", self.way.shown()))
                }
            }
        });
        self.judge(received.map_err(ClientError::Unreachable)?)
    }

    fn request(&self, ask: &Ask<'_>) -> http::Result<Request<String>> {
        let host = match &self.way {
            // Nobody looks at it there, but HTTP/1.1 has one.
            Way::Socket(_) => "localhost",
            Way::Tcp { authority, .. } => authority,
        };
        let mut request = Request::builder().method(&ask.method).uri(&ask.target).header(HOST, host);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(tag) = ask.if_match {
            request = request.header(IF_MATCH, tag);
        }
        match ask.body {
            Some(body) => request.header(CONTENT_TYPE, "application/json").body(body.to_string()),
            None => request.body(String::new()),
        }
    }

    fn judge(&self, received: Received) -> Result<Answer, ClientError> {
        let Received { status, headers, body } = received;
        let strange = || {
            let place = self.way.shown();
            ClientError::Unreachable(format!(
                "what answers at {place} is not estop's admin API (status {}): check the port. The admin port is \
                 `listen.admin` of the configuration, 4101 by default.",
                status.as_u16()
            ))
        };
        if !status.is_success() {
            let refusal = Refusal::read(status, &body).ok_or_else(strange)?;
            return Err(ClientError::Refused(refusal));
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

impl Way {
    fn shown(&self) -> String {
        match self {
            Way::Socket(path) => path.display().to_string(),
            Way::Tcp { authority, .. } => format!("http://{authority}"),
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn way_to(url: &str) -> Result<Way, BadTarget> {
    let bad = |why: &str| BadTarget(format!("the URL `{url}` cannot be used: {why}"));
    let uri: http::Uri = url.parse().map_err(|_| bad("write it as http://127.0.0.1:4101"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(bad(
                "this command speaks plain http only. On another machine, forward its admin port: \
                 ssh -L 4101:127.0.0.1:4101 HOST, then use http://127.0.0.1:4101",
            ));
        }
        Some(_) | None => return Err(bad("it must begin with http://")),
    }
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    let authority = authority.ok_or_else(|| bad("write host and port, and nothing before them"))?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(bad("leave out what follows the port"));
    }
    Ok(Way::Tcp {
        host: authority.host().trim_matches(['[', ']']).to_owned(),
        port: authority.port_u16().unwrap_or(80),
        authority: authority.to_string(),
    })
}

/// Host and port of an admin port's URL; `None` if it is anything else than `http://127.0.0.1:4101` is.
pub(crate) fn host_and_port(url: &str) -> Option<String> {
    let Ok(Way::Tcp { port, authority, .. }) = way_to(url.trim_end_matches('/')) else { return None };
    authority.ends_with(&format!(":{port}")).then_some(authority)
}

fn bearer(token: &SecretString) -> Result<HeaderValue, BadTarget> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
    let mut value =
        value.map_err(|_| BadTarget("the token has characters that no token has: copy it again".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_be_used_are_refused_with_the_mend() {
        for (url, why) in [
            ("127.0.0.1:4101", "http://"),
            ("https://estop.example", "ssh -L"),
            ("http://me:secret@host:1", "nothing before"),
            ("http://host:1/api", "leave out"),
            ("ftp://host", "begin with http://"),
        ] {
            let error = way_to(url).expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let Ok(Way::Tcp { host, port, authority }) = way_to("http://[::1]:4101/") else {
            unreachable!("it is a good URL")
        };
        assert_eq!((&*host, port, &*authority), ("::1", 4101, "[::1]:4101"));
    }

    #[test]
    fn tl_1_an_admin_port_is_named_by_host_and_port_and_nothing_else() {
        for (url, expected) in [
            ("http://127.0.0.1:4101", Some("127.0.0.1:4101")),
            ("http://[::1]:4101/", Some("[::1]:4101")),
            ("http://localhost", None),
            ("http://localhost:", None),
            ("http://localhost:99999", None),
            ("https://localhost:4101", None),
            ("http://me@localhost:4101", None),
            ("http://localhost:4101/api", None),
            ("http://localhost:4101?x", None),
            ("http://local host:4101", None),
            ("http://localhost:4101\r\nx: y", None),
            ("localhost:4101", None),
        ] {
            assert_eq!(host_and_port(url).as_deref(), expected, "{url:?}");
        }
    }
}
