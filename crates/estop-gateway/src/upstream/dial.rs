//! The one place where an upstream connection is made. Host and port come from the configuration.

use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http1::{OwnConnection, Stream};
use super::line::Line;
use super::{Lease, STREAMS_MAX, Shared, Upstream, UpstreamError};
use crate::host::Host;
use crate::settings::HttpVersion;

/// One address of several may be dead; the next one is tried after this time.
const ADDRESS_WITHIN: Duration = Duration::from_secs(4);
/// A connection of HTTP/2 that does not answer a ping in time is given up.
const PING_EVERY: Duration = Duration::from_secs(15);
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// Bytes a stream of HTTP/2 may send before its client reads them. Chosen: 2.5 MB/s at 100 ms round trip; double only
/// takes more memory for clients that do not read. The connection's window holds that of all its streams, so that those
/// who do not read take nothing from the others.
const STREAM_WINDOW: u32 = 256 << 10;

impl Upstream {
    /// Makes a new connection. Dropping the future abandons it, in whatever phase it is.
    pub(super) async fn dial(self: &Arc<Self>, host: &Arc<Host>) -> Result<Lease, UpstreamError> {
        let line = Line::new(self.connect().await?, Arc::clone(host));
        let version = self.ready.provider.http;
        let Some((connector, name)) = &self.ready.tls else {
            return match version {
                HttpVersion::Two => self.handshake_two(line).await,
                HttpVersion::Auto | HttpVersion::One => Ok(self.one(Stream::Plain(line))),
            };
        };
        let stream = connector
            .connect(name.clone(), line)
            .await
            .map_err(|error| unreachable(&self.ready.authority, "TLS", &error))?;
        let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if version == HttpVersion::Two && !is_two {
            let said = "the provider does not speak HTTP/2";
            return Err(UpstreamError::Unreachable(format!("{}: {said}", self.ready.authority)));
        }
        if is_two { self.handshake_two(stream).await } else { Ok(self.one(Stream::Tls(Box::new(stream)))) }
    }

    fn one(self: &Arc<Self>, stream: Stream) -> Lease {
        Lease::one(Arc::clone(self), OwnConnection::new(stream))
    }

    /// Tries the addresses of the host in turn.
    async fn connect(&self) -> Result<TcpStream, UpstreamError> {
        let provider = &self.ready.provider;
        let addresses = tokio::net::lookup_host((&*provider.host, provider.port))
            .await
            .map_err(|error| unreachable(&self.ready.authority, "name lookup", &error))?;
        let mut last = UpstreamError::Unreachable(format!("{}: no address found", self.ready.authority));
        for address in addresses {
            let connected = timeout(ADDRESS_WITHIN, TcpStream::connect(address)).await;
            match connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    // Without it, small writes wait for the peer's delayed acknowledgement: 40 ms.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = unreachable(&self.ready.authority, "connect", &error),
            }
        }
        Err(last)
    }

    async fn handshake_two<S>(self: &Arc<Self>, stream: S) -> Result<Lease, UpstreamError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * STREAMS_MAX as u32)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| UpstreamError::Broken(error.to_string()))?;
        tokio::spawn(connection);
        let shared = Shared { sender, streams: Arc::default(), idle_sweeps: Arc::default() };
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).push(shared.clone());
        Ok(Lease::two(Arc::clone(self), shared.sender, shared.streams))
    }
}

fn unreachable(authority: &str, what: &str, error: &std::io::Error) -> UpstreamError {
    UpstreamError::Unreachable(format!("{authority}: {what} failed: {error}"))
}
