//! Makes connections: the name is looked up once, every address is checked, and exactly the checked one is connected to.
//! A name that answers differently the next time (DNS rebinding) gains nothing. No proxy is asked, whatever the environment says.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address::{Kind, Reach};
use crate::plain::one_line;

/// One address of several may be dead; the next one is tried after this time.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Why a dialer cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A certificate cannot be used.
    #[error("ca_file: a certificate cannot be used: {0}")]
    Certificate(rustls::Error),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(rustls::Error),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("name lookup failed: {}", short(.0))]
    Lookup(io::Error),
    #[error("the name has no address")]
    NoAddress,
    #[error("the address {address} is not sent to: {why}")]
    Forbidden { address: IpAddr, why: &'static str },
    #[error("http:// is not sent to the public address {0}: use https://")]
    Plain(IpAddr),
    #[error("connect failed: {}", short(.0))]
    Connect(io::Error),
    #[error("the host has no TLS name")]
    NoTlsName,
    #[error("TLS failed: {}", short(.0))]
    Tls(io::Error),
}

/// Looks names up.
pub trait Resolve: Send + Sync {
    /// The addresses of a name.
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

/// Asks the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((host, port)).await?.map(|address| address.ip()).collect())
        })
    }
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Dialer {
    resolver: Arc<dyn Resolve>,
    reach: Reach,
    tls: Arc<ClientConfig>,
}

impl Dialer {
    /// A dialer that trusts these authorities; none = the usual ones.
    pub(crate) fn new(
        resolver: Arc<dyn Resolve>,
        reach: Reach,
        ca: &[CertificateDer<'static>],
    ) -> Result<Dialer, TrustError> {
        let mut roots = RootCertStore::empty();
        if ca.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        for certificate in ca {
            roots.add(certificate.clone()).map_err(TrustError::Certificate)?;
        }
        let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Dialer { resolver, reach, tls: Arc::new(tls) })
    }

    /// Connects to a host. Without TLS only to where the configuration allows more than the public network.
    pub(crate) async fn tcp(&self, host: &str, port: u16, is_plain: bool) -> Result<TcpStream, DialError> {
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(host, port).await.map_err(DialError::Lookup)?,
        };
        let mut last = DialError::NoAddress;
        for address in addresses.iter().take(ADDRESSES_MAX) {
            let kind = self.reach.check(*address);
            // One bad address of several is enough: whoever made this name means harm, or does not know better.
            let kind = kind.map_err(|why| DialError::Forbidden { address: *address, why })?;
            if is_plain && kind == Kind::Public {
                return Err(DialError::Plain(*address));
            }
        }
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            let connected =
                timeout(ADDRESS_TIMEOUT, TcpStream::connect(SocketAddr::new(address, port))).await;
            match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    // Requests are small and sent at once.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = DialError::Connect(error),
            }
        }
        Err(last)
    }

    /// Speaks TLS on a connection.
    pub(crate) async fn tls<S>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<tokio_rustls::client::TlsStream<S>, DialError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| DialError::NoTlsName)?;
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        connector.connect(name, stream).await.map_err(DialError::Tls)
    }
}

fn short(error: &io::Error) -> String {
    one_line(&error.to_string(), 160)
}

/// A connection from which no more than so many bytes are read.
#[derive(Debug)]
pub(crate) struct Limited<S> {
    pub(crate) stream: S,
    pub(crate) left: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other("the other side says too much")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.left = self.left.saturating_sub(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
