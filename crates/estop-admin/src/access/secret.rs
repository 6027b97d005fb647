//! Secrets estop makes: 256 random bits behind a prefix that says what they open. Only their SHA-256 is kept.

use estop_core::hex;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use crate::problem::{Kind, Problem};

/// How keys of agents begin.
pub(crate) const AGENT_KEY_PREFIX: &str = "estop_key_";
const DIGITS: usize = 64;

/// A new secret; shown once, then only its hash is left.
pub(crate) struct Made {
    pub(crate) plain: SecretString,
    pub(crate) sha256: [u8; 32],
    /// The first characters, for people to recognise it.
    pub(crate) prefix: String,
}

/// Makes a secret.
pub(crate) fn make(prefix: &str) -> Result<Made, Problem> {
    let plain = format!("{prefix}{}", random_digits()?);
    let sha256 = sha256(&plain);
    // Six digits tell a person's keys apart and leave 232 bits.
    let shown = plain.chars().take(prefix.len() + 6).collect();
    Ok(Made { plain: plain.into(), sha256, prefix: shown })
}

/// A short random name for things people see.
pub(crate) fn random_id() -> Result<String, Problem> {
    Ok(random_digits()?.chars().take(12).collect())
}

fn random_digits() -> Result<String, Problem> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|_| Problem::new(Kind::Internal, "The system gave no random numbers."))?;
    let mut digits = [0; DIGITS];
    hex::encode_into(&bytes, &mut digits);
    Ok(digits.iter().map(|digit| char::from(*digit)).collect())
}

/// The hash under which a secret is kept.
pub(crate) fn sha256(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Whether a text has the form of a token estop makes. Such a text is never worth a slow hash.
pub(crate) fn looks_made(text: &str) -> bool {
    ["estop_admin_", "estop_operator_", "estop_viewer_", AGENT_KEY_PREFIX].iter().any(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            rest.len() == DIGITS && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        })
    })
}
