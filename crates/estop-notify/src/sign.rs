//! Signs what webhooks receive, as Standard Webhooks says: `v1,` and the base64 of an HMAC-SHA256 over id, time and body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;

/// Bytes a secret may have (Standard Webhooks: between 24 and 64).
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that a receiver shares with us.
#[derive(Clone, Debug)]
pub struct SigningSecret(SecretSlice<u8>);

/// Why a secret is refused. It never shows the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret must be `whsec_` and the base64 of 24 to 64 random bytes; make one with: echo whsec_$(head -c 32 /dev/urandom | base64)"
)]
pub struct SecretError;

impl SigningSecret {
    /// Reads a secret as people write it.
    pub fn parse(text: &SecretString) -> Result<SigningSecret, SecretError> {
        let encoded = text.expose_secret().trim().strip_prefix("whsec_").ok_or(SecretError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError)?;
        let fits = SECRET_BYTES.contains(&bytes.len());
        fits.then(|| SigningSecret(bytes.into())).ok_or(SecretError)
    }

    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.expose_secret()).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// One signature for each secret: while a secret is replaced, both are good.
pub(crate) fn signatures(secrets: &[SigningSecret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let all: Vec<String> = secrets.iter().map(|secret| secret.sign(id, timestamp, body)).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn al_1_signature_is_that_of_the_standards_own_example() {
        let secret = SigningSecret::parse(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned().into());
        let secret = secret.expect("a secret");
        let body = br#"{"test": 2432232314}"#;
        let signed =
            signatures(&[secret.clone(), secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signed, format!("{one} {one}"));
    }

    #[test]
    fn al_1_secrets_that_are_too_short_or_odd_are_refused() {
        for wrong in
            ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_not base64 at all!"]
        {
            assert!(SigningSecret::parse(&wrong.to_owned().into()).is_err(), "{wrong}");
        }
    }
}
