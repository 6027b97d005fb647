//! A provider, made ready to be spoken to: its address, its trust anchors, its key.

use std::sync::Arc;

use http::HeaderValue;
use http::header::{AUTHORIZATION, HeaderName};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use tokio_rustls::TlsConnector;

use crate::settings::{Auth, Provider};
use crate::start_error::StartError;

/// A provider, ready to be spoken to. Shared by all workers.
pub(crate) struct ProviderTarget {
    /// What the configuration says.
    pub provider: Provider,
    /// Host and port as the Host header has them.
    pub authority: Box<str>,
    /// The same, as a header.
    pub host: HeaderValue,
    /// The key to send instead of the client's.
    pub key: Option<(HeaderName, HeaderValue)>,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// See [`ProviderTarget::without_repeat`].
    versioned_tails: Vec<Box<str>>,
}

impl ProviderTarget {
    /// Makes a provider ready.
    pub(crate) fn new(name: &str, provider: Provider) -> Result<ProviderTarget, StartError> {
        let wrong = |problem: String| StartError::Provider { provider: name.into(), problem };
        let authority = authority(&provider);
        let host = HeaderValue::from_str(&authority)
            .map_err(|_| wrong("base_url: the host cannot stand in a header".into()))?;
        let key = key(&provider).map_err(|problem| wrong(problem.into()))?;
        let tls =
            if provider.tls { Some(tls(&provider).map_err(|error| wrong(error.to_string()))?) } else { None };
        let versioned_tails = versioned_tails(&provider);
        Ok(ProviderTarget { provider, authority: authority.into(), host, key, tls, versioned_tails })
    }

    /// Whether estop can sign a request of its own: it holds the provider's key, or the provider wants none.
    pub(crate) fn can_sign(&self) -> bool {
        self.key.is_some() || self.provider.auth == Auth::None
    }

    /// A client's path without what the base path ends with already: `/v1/models` on the base `https://host/v1` is
    /// `https://host/v1/models`, never `/v1/v1/models`.
    pub(crate) fn without_repeat<'p>(&self, path: &'p str) -> &'p str {
        without_repeat(&self.versioned_tails, path)
    }
}

/// The ends of a base path that a client may send again: from any of its segments to a version at its end, the longest
/// first. `/openai/v1` has `/openai/v1` and `/v1`; `/api` has none.
fn versioned_tails(provider: &Provider) -> Vec<Box<str>> {
    if provider.version().is_none() {
        return Vec::new();
    }
    let base_path = &provider.base_path;
    base_path.match_indices('/').filter_map(|(at, _)| base_path.get(at..)).map(Box::from).collect()
}

fn without_repeat<'p>(tails: &[Box<str>], path: &'p str) -> &'p str {
    let is_whole = |rest: &&str| rest.is_empty() || rest.starts_with('/');
    tails.iter().find_map(|tail| path.strip_prefix(&**tail).filter(is_whole)).unwrap_or(path)
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

/// Why a provider cannot be spoken to by TLS.
#[derive(Debug, thiserror::Error)]
enum TlsError {
    #[error("ca_file: a certificate cannot be used: {0}")]
    Certificate(rustls::Error),
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
    #[error("base_url: the host is neither a name nor an address")]
    Host,
}

fn tls(provider: &Provider) -> Result<(TlsConnector, ServerName<'static>), TlsError> {
    let mut roots = RootCertStore::empty();
    match &provider.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(certificates) => {
            for certificate in certificates {
                roots.add(certificate.clone()).map_err(TlsError::Certificate)?;
            }
        }
    }
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(provider.host.to_string()).map_err(|_| TlsError::Host)?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use estop_wire::protocol::Family;

    use super::*;

    fn provider() -> Provider {
        Provider {
            family: Family::OpenAi,
            tls: false,
            host: "localhost".into(),
            port: 80,
            base_path: "".into(),
            auth: Auth::None,
            key: None,
            ca: None,
        }
    }

    #[test]
    fn id_4_a_version_is_not_sent_twice() {
        for (base, path, sent) in [
            ("", "/v1/chat/completions", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions", "/chat/completions"),
            ("/v1", "/chat/completions", "/chat/completions"),
            ("/v1", "/v1", ""),
            ("/v1", "/v1beta/models", "/v1beta/models"),
            ("/v1", "/v1x/models", "/v1x/models"),
            ("/v1", "/v2/models", "/v2/models"),
            ("/v1beta", "/v1beta/models/m:generateContent", "/models/m:generateContent"),
            ("/openai/v1", "/v1/responses", "/responses"),
            ("/openai/v1", "/openai/v1/responses", "/responses"),
            ("/openai", "/openai/v1/responses", "/openai/v1/responses"),
            ("/api", "/api/chat", "/api/chat"),
            ("/v1beta/openai", "/v1/models", "/v1/models"),
        ] {
            let provider = Provider { base_path: base.into(), ..provider() };
            assert_eq!(without_repeat(&versioned_tails(&provider), path), sent, "{base} {path}");
        }
    }
}
