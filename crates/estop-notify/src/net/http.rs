//! One HTTP/1.1 request on a connection of its own: no redirect is followed, no cookie kept, at most 64 kB of the answer
//! read, and everything within one time limit.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited as LimitedBody};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::dial::{DialError, Dialer};
use super::endpoint::Endpoint;
use crate::plain::one_line;

/// Bytes of an answer that are read; more is cut off. Receivers answer with a word; GitHub's search with some 30 kB.
pub(crate) const ANSWER_MAX: usize = 64 * 1024;

/// The status says whether a message arrived; the rest of the answer is waited for no longer than this.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// A request to be made.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

impl Call {
    /// A POST of JSON.
    pub(crate) fn post(endpoint: Endpoint, body: &serde_json::Value) -> Call {
        let json = HeaderValue::from_static("application/json");
        let headers = vec![(CONTENT_TYPE, json)];
        Call { method: Method::POST, endpoint, headers, body: body.to_string().into() }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: HeaderValue) -> Call {
        self.headers.push((HeaderName::from_static(name), value));
        self
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The first 64 kB.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A number of seconds in a header.
    pub(crate) fn seconds(&self, name: &str) -> Option<i64> {
        self.headers.get(name)?.to_str().ok()?.trim().parse().ok()
    }
}

/// Why a request has no answer. There is no secret in it.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {why}")]
pub struct CallError {
    at: String,
    why: ExchangeError,
}

#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("the exchange broke off: {}", one_line(&.0.to_string(), 160))]
    Broken(hyper::Error),
    #[error("the request cannot be written: check the channel's URL")]
    Url,
    #[error("the host is odd")]
    Host,
}

/// The network, as far as a channel may use it.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) dialer: Dialer,
    pub(crate) within: Duration,
    /// What must never be seen in what a receiver says back.
    pub(crate) secrets: Vec<SecretString>,
}

impl Network {
    /// Makes the request.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let at = call.endpoint.shown();
        let answer = timeout(self.within, self.exchange(call)).await;
        let answer = answer.unwrap_or_else(|_| Err(ExchangeError::Late(self.within)));
        let answer = answer.map_err(|why| CallError { at, why })?;
        // Before anything is cut: half a secret is not found any more.
        let body = self.redacted(&String::from_utf8_lossy(&answer.body)).into_bytes();
        Ok(Answer { body, ..answer })
    }

    /// A receiver may say back what it was sent.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let hide = |text: String, secret: &SecretString| text.replace(secret.expose_secret(), "[secret]");
        self.secrets.iter().fold(text.to_owned(), hide)
    }

    async fn exchange(&self, call: Call) -> Result<Answer, ExchangeError> {
        let Endpoint { tls, host, port, .. } = &call.endpoint;
        let stream = self.dialer.tcp(host, *port, !tls).await?;
        if *tls {
            let stream = self.dialer.tls(host, stream).await?;
            return speak(stream, call).await;
        }
        speak(stream, call).await
    }
}

async fn speak<S>(stream: S, call: Call) -> Result<Answer, ExchangeError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = request(call)?;
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_headers(64)
        .max_buf_size(ANSWER_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ExchangeError::Broken)?;
    let connection = tokio::spawn(connection);
    let answered = read(&mut sender, request).await;
    // Nothing more is wanted of it, whatever it still says.
    connection.abort();
    answered.map_err(ExchangeError::Broken)
}

async fn read(
    sender: &mut hyper::client::conn::http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, hyper::Error> {
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let mut body = LimitedBody::new(body, ANSWER_MAX);
    let mut read = Vec::new();
    // What breaks off, is too long or never ends does not undo the status.
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                read.extend_from_slice(&data);
            }
        }
    };
    let _ = timeout(BODY_TIMEOUT, all).await;
    Ok(Answer { status: parts.status, headers: parts.headers, body: read })
}

fn request(call: Call) -> Result<Request<Full<Bytes>>, ExchangeError> {
    let mut request = Request::new(Full::new(call.body));
    *request.method_mut() = call.method;
    *request.uri_mut() = call.endpoint.path().parse().map_err(|_| ExchangeError::Url)?;
    let headers = request.headers_mut();
    let host = HeaderValue::from_str(&call.endpoint.authority()).map_err(|_| ExchangeError::Host)?;
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("estop/", env!("CARGO_PKG_VERSION"))));
    headers.extend(call.headers);
    Ok(request)
}
