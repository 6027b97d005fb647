//! One request to the running estop and its answer: hyper over a socket of either kind. Every command that asks estop
//! comes through here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::endpoint::Endpoint;
use super::error::TransportError;
use super::refusal::own_detail;

/// The largest answer, a page of 500 events with evidence, has a few megabytes.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Where estop is, and what every request shows there.
#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: HeaderMap,
}

/// An answer, read whole.
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    /// Why estop itself refuses; `None` if it does not, or if something else answered.
    pub(crate) fn own_detail(&self) -> Option<String> {
        let content_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        own_detail(self.status.as_u16(), content_type.unwrap_or_default(), &self.body)
    }
}

impl Transport {
    pub(crate) fn new(endpoint: Endpoint) -> Transport {
        Transport { endpoint, headers: HeaderMap::new() }
    }

    /// Connects, asks, and reads the answer, all within this time.
    pub(crate) async fn exchange(
        &self,
        request: Request<Bytes>,
        within: Duration,
    ) -> Result<Received, TransportError> {
        self.in_time(within, async { self.receive(self.send(request).await?).await }).await
    }

    /// Reads what is left of an answer.
    pub(super) async fn receive(&self, response: Response<Incoming>) -> Result<Received, TransportError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
        let cut = |error| TransportError::CutShort(self.endpoint.clone(), error);
        Ok(Received { status: head.status, headers: head.headers, body: body.map_err(cut)?.to_bytes() })
    }

    pub(super) async fn in_time<T>(
        &self,
        within: Duration,
        work: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        let late = |_| Err(TransportError::TimedOut(self.endpoint.clone(), within));
        tokio::time::timeout(within, work).await.unwrap_or_else(late)
    }

    pub(super) async fn send(
        &self,
        mut request: Request<Bytes>,
    ) -> Result<Response<Incoming>, TransportError> {
        let host = HeaderValue::from_str(self.endpoint.host()).map_err(http::Error::from)?;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        headers.extend(self.headers.clone());
        let request = request.map(Full::new);
        match &self.endpoint {
            Endpoint::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                self.converse(stream.map_err(|error| self.connect_error(error))?, request).await
            }
            Endpoint::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                self.converse(stream.map_err(|error| self.connect_error(error))?, request).await
            }
        }
    }

    async fn converse<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TransportError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let broken = |error| TransportError::Broken(self.endpoint.clone(), error);
        let stream = TokioIo::new(IgnoreWriteErrors(stream));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
        // How it ends is told by the answer, or by its absence.
        tokio::spawn(async move { drop(connection.await) });
        sender.send_request(request).await.map_err(broken)
    }

    fn connect_error(&self, error: io::Error) -> TransportError {
        TransportError::Connect(self.endpoint.clone(), error)
    }
}

/// A POST with JSON.
pub(crate) fn post(target: &str, body: impl Into<Bytes>) -> http::Result<Request<Bytes>> {
    let request = Request::builder().method(Method::POST).uri(target);
    request.header(CONTENT_TYPE, "application/json").body(body.into())
}

/// estop may refuse before it has read the whole body, and close. hyper would report the failed write and never read the
/// refusal; a hook would then take a "no" for an estop that is away. So reading alone says how an exchange ends.
struct IgnoreWriteErrors<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for IgnoreWriteErrors<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IgnoreWriteErrors<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf).map(|written| Ok(written.unwrap_or(buf.len())))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx).map(|_| Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn tl_1_a_refusal_that_comes_before_the_whole_question_was_read_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let rounds = 20;
        let server = std::thread::spawn(move || {
            for _ in 0..rounds {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.read_exact(&mut [0; 64]).expect("the beginning");
                stream.write_all(b"HTTP/1.1 409 Conflict\r\ncontent-length: 2\r\n\r\nno").expect("written");
            }
        });
        let transport = Transport::new(Endpoint::Socket(path));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for _ in 0..rounds {
            let request = post("/api/hooks/x", vec![b' '; 8 << 20]).expect("a request");
            let received = runtime.block_on(transport.exchange(request, Duration::from_secs(10)));
            let received = received.expect("an answer");
            assert_eq!((received.status, &*received.body), (StatusCode::CONFLICT, &b"no"[..]));
        }
        server.join().expect("the server ends");
    }
}
