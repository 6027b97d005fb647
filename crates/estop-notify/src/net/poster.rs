//! Posts JSON to a place that the configuration names, under the same rules as alerts.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};

use super::address::Reach;
use super::dial::{Dialer, SystemResolver, TrustError};
use super::endpoint::Endpoint;
use super::http::{Call, CallError, Network};

/// Posts to one place.
pub struct Poster {
    endpoint: Endpoint,
    headers: Vec<(HeaderName, HeaderValue)>,
    network: Network,
}

impl Poster {
    /// `headers`: names and values that can stand in a request; others are left out. `ca`: whom to trust; none = the usual
    /// authorities. Each post has an answer `within` this time, or none.
    pub fn new(
        endpoint: Endpoint,
        headers: &[(String, SecretString)],
        ca: &[CertificateDer<'static>],
        within: Duration,
    ) -> Result<Poster, TrustError> {
        // Whoever writes the configuration says where: collectors run beside estop or in its network.
        let reach = Reach { allow_private: true, allow_loopback: true };
        let dialer = Dialer::new(Arc::new(SystemResolver), reach, ca)?;
        let secrets = headers.iter().map(|(_, value)| value.clone()).collect();
        let header = |(name, value): &(String, SecretString)| {
            let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
        };
        let headers = headers.iter().filter_map(header).collect();
        Ok(Poster { endpoint, headers, network: Network { dialer, within, secrets } })
    }

    /// Posts; status and body of the answer.
    pub async fn post(&self, body: &serde_json::Value) -> Result<(u16, Vec<u8>), CallError> {
        let mut call = Call::post(self.endpoint.clone(), body);
        call.headers.extend(self.headers.iter().cloned());
        let answer = self.network.call(call).await?;
        Ok((answer.status.as_u16(), answer.body))
    }

    /// Where it posts to, as it may be shown.
    pub fn shown(&self) -> String {
        self.endpoint.shown()
    }
}
