//! The canary's client: asks through the data plane's own listener, as any agent does.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use estop_gateway::{CANARY_HEADER, CANARY_PROVIDER};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::DataListener;

/// What only this drill's canary knows.
pub(super) struct Secret(String);

impl Secret {
    /// 256 random bits.
    pub(super) fn random() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// What its upstream knows its requests by: not enough of it to be the canary.
    pub(super) fn word(&self) -> &str {
        &self.0[..16]
    }
}

/// Asks as the canary.
pub(super) struct Client<'a> {
    listener: &'a DataListener,
    secret: &'a Secret,
}

impl<'a> Client<'a> {
    pub(super) fn new(listener: &'a DataListener, secret: &'a Secret) -> Client<'a> {
        Client { listener, secret }
    }

    /// Asks for a stream, and waits for its beginning.
    pub(super) fn stream(&self, within: Duration) -> io::Result<Stream> {
        let mut stream = Stream { line: self.send(within)?, read: Vec::new() };
        stream.until(within, |text| text.contains("tweet"))?;
        Ok(stream)
    }

    /// Asks, and reads whatever comes to its end.
    pub(super) fn ask(&self, within: Duration) -> io::Result<String> {
        Stream { line: self.send(within)?, read: Vec::new() }.end(within)
    }

    fn send(&self, within: Duration) -> io::Result<Box<dyn Line>> {
        let address = reachable(self.listener.address);
        let socket = TcpStream::connect_timeout(&address, within)?;
        socket.set_write_timeout(Some(within))?;
        let mut line: Box<dyn Line> = match &self.listener.certificate {
            None => Box::new(socket),
            Some(certificate) => Box::new(tls(socket, address, certificate.clone())?),
        };
        let body = format!(
            "{{\"model\":\"canary\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}}",
            self.secret.word()
        );
        let head = format!(
            "POST /{CANARY_PROVIDER}/v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\n{CANARY_HEADER}: {}\r\ncontent-length: {}\r\n\r\n",
            self.secret.text(),
            body.len()
        );
        line.write_all(format!("{head}{body}").as_bytes())?;
        line.flush()?;
        Ok(line)
    }
}

/// What was said at the end, and when.
pub(super) type StreamEnd = (io::Result<String>, Instant);

/// An answer that is being read.
pub(super) struct Stream {
    line: Box<dyn Line>,
    read: Vec<u8>,
}

impl Stream {
    /// Reads to the end on a thread of its own, so that whatever else is looked at does not count.
    pub(super) fn end_beside(mut self, within: Duration) -> io::Result<Receiver<StreamEnd>> {
        let (tell, told) = channel();
        std::thread::Builder::new().name("estop-canary-in".into()).spawn(move || {
            // A little longer than whoever waits for it.
            let _ = tell.send((self.end(within + Duration::from_secs(1)), Instant::now()));
        })?;
        Ok(told)
    }

    /// Reads to the end; what was said since it began.
    pub(super) fn end(&mut self, within: Duration) -> io::Result<String> {
        self.read.clear();
        self.until(within, |_| false)?;
        Ok(String::from_utf8_lossy(&self.read).into_owned())
    }

    /// Reads until enough was said, or to the end.
    fn until(&mut self, within: Duration, is_enough: impl Fn(&str) -> bool) -> io::Result<()> {
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        while !is_enough(&String::from_utf8_lossy(&self.read)) {
            let left = within.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.line.patience(left)?;
            match self.line.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(read) => self.read.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Closed without a farewell is closed.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
                    ) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A connection of either kind.
trait Line: Read + Write + Send {
    fn patience(&self, within: Duration) -> io::Result<()>;
}

impl Line for TcpStream {
    fn patience(&self, within: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(within))
    }
}

impl Line for StreamOwned<ClientConnection, TcpStream> {
    fn patience(&self, within: Duration) -> io::Result<()> {
        self.sock.set_read_timeout(Some(within))
    }
}

/// Where a listener is reached from its own machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn tls(
    socket: TcpStream,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let only = Arc::new(Only { certificate, crypto: Arc::clone(&crypto) });
    let config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(only)
        .with_no_client_auth();
    let name = ServerName::IpAddress(address.ip().into());
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, socket))
}

/// Takes one certificate and no other: the one this estop shows itself. Names and dates do not matter between the two.
#[derive(Debug)]
struct Only {
    certificate: CertificateDer<'static>,
    crypto: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *shown == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General("this is not estop's own certificate".into()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.crypto.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.crypto.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
