//! The PEM files that a configuration names: certificates and keys of listeners and providers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::zeroize::Zeroize;

use super::pem_of;
use super::serve::{ServeConfig, TlsFiles};

/// What is in the PEM files of a configuration.
#[derive(Debug)]
pub struct PemFiles {
    /// What the data listener speaks TLS with, if it does.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whom the connections to a provider trust, by the provider's name; of those alone that name a file.
    pub provider_ca: BTreeMap<String, Vec<CertificateDer<'static>>>,
}

impl PemFiles {
    /// Reads all of them.
    pub fn read(config: &ServeConfig) -> anyhow::Result<PemFiles> {
        let tls = config.tls.as_ref().map(server_tls).transpose()?;
        let mut provider_ca = BTreeMap::new();
        for (name, provider) in &config.providers {
            if let Some(file) = &provider.ca_file {
                let ca = certificates(file, "ca_file").with_context(|| format!("providers.{name}"))?;
                provider_ca.insert(name.clone(), ca);
            }
        }
        Ok(PemFiles { tls, provider_ca })
    }
}

/// The certificate the data listener shows, if it speaks TLS.
pub fn certificate(config: &ServeConfig) -> anyhow::Result<Option<CertificateDer<'static>>> {
    let chain = config.tls.as_ref().map(|files| certificates(&files.cert, "tls.cert")).transpose()?;
    Ok(chain.and_then(|chain| chain.into_iter().next()))
}

fn server_tls(files: &TlsFiles) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = certificates(&files.cert, "tls.cert")?;
    let mut pem = pem_of(&files.key).context("tls.key")?;
    let key = PrivateKeyDer::from_pem_slice(&pem);
    pem.zeroize();
    let key = key.with_context(|| format!("tls.key: {} has no private key in PEM", files.key.display()))?;
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("tls: certificate and key do not fit together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path, key: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let pem = pem_of(file).with_context(|| key.to_owned())?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.with_context(|| format!("{key}: {} cannot be read as PEM", file.display()))?;
    anyhow::ensure!(!chain.is_empty(), "{key}: {} has no certificate in it", file.display());
    Ok(chain)
}
