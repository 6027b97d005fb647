//! A provider, made ready to be spoken to: its address, its trust anchors, its key.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Uri, Version};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use tokio_rustls::TlsConnector;

use crate::settings::{Auth, HttpVersion, Provider};
use crate::start_error::StartError;

/// A provider, ready to be spoken to. Shared by all workers.
pub(crate) struct Ready {
    /// What the configuration says.
    pub provider: Provider,
    /// Host and port as the Host header has them.
    pub authority: Box<str>,
    target: Authority,
    /// The same, as a header.
    pub host: HeaderValue,
    /// The key to send instead of the client's.
    pub key: Option<(HeaderName, HeaderValue)>,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Ready {
    /// Makes a provider ready.
    pub(crate) fn new(name: &str, provider: Provider) -> Result<Ready, StartError> {
        let wrong = |problem: String| StartError::Provider { provider: name.into(), problem };
        let authority = authority(&provider);
        let host = HeaderValue::from_str(&authority)
            .map_err(|_| wrong("base_url: the host cannot stand in a header".into()))?;
        let key = key(&provider).map_err(|problem| wrong(problem.into()))?;
        let tls = if provider.tls { Some(tls(&provider).map_err(wrong)?) } else { None };
        let target =
            authority.parse().map_err(|_| wrong("base_url: the host cannot stand in a URL".into()))?;
        Ok(Ready { provider, authority: authority.into(), target, host, key, tls })
    }

    /// The form HTTP/2 wants: scheme, authority and path, no Host header.
    pub(super) fn aim_two<B>(&self, request: &mut Request<B>) {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(if self.provider.tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(self.target.clone());
        // Scheme, authority and path are all there: such a URI always fits together.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        *request.version_mut() = Version::HTTP_2;
        request.headers_mut().remove(HOST);
    }
}

fn authority(provider: &Provider) -> String {
    let host =
        if provider.host.contains(':') { format!("[{}]", provider.host) } else { provider.host.to_string() };
    let usual = if provider.tls { 443 } else { 80 };
    if provider.port == usual { host } else { format!("{host}:{}", provider.port) }
}

fn key(provider: &Provider) -> Result<Option<(HeaderName, HeaderValue)>, &'static str> {
    let Some(key) = &provider.key else { return Ok(None) };
    let (name, text) = match provider.auth {
        Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
        Auth::Header(name) => (HeaderName::from_static(name), key.expose_secret().to_owned()),
        Auth::None => return Ok(None),
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| "the key has characters that cannot stand in a header; check it for line ends")?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

fn tls(provider: &Provider) -> Result<(TlsConnector, ServerName<'static>), String> {
    let mut roots = RootCertStore::empty();
    match &provider.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(certificates) => {
            for certificate in certificates {
                let added = roots.add(certificate.clone());
                added.map_err(|error| format!("ca_file: a certificate cannot be used: {error}"))?;
            }
        }
    }
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = match provider.http {
        HttpVersion::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        HttpVersion::One => vec![b"http/1.1".to_vec()],
        HttpVersion::Two => vec![b"h2".to_vec()],
    };
    let name = ServerName::try_from(provider.host.to_string())
        .map_err(|_| "base_url: the host is neither a name nor an address".to_owned())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}
