//! A certificate nobody trusts, made anew at each start.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// What a TLS server needs, and the certificate for those who shall trust it.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) certificate_pem: String,
}

/// For `localhost` and the loopback addresses; HTTP/2 and HTTP/1.1 by ALPN.
pub(crate) fn self_signed() -> io::Result<Tls> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let certified = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let chain = vec![certified.cert.der().clone()];
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), certificate_pem: certified.cert.pem() })
}
