//! A hash chain (TW-7): each link covers the one before it, so that nothing can be changed or left out unnoticed.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::ids::Name;

/// A SHA-256 digest, written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl Digest {
    /// Its 64 digits.
    pub fn digits(&self) -> [u8; 64] {
        let mut out = [0; 64];
        hex::encode_into(&self.0, &mut out);
        out
    }

    /// The next link of a chain: SHA-256(this one ‖ length of `bytes` ‖ `bytes`).
    pub(crate) fn link(&self, bytes: &[u8]) -> Digest {
        let hasher = Sha256::new()
            .chain_update(self.0)
            .chain_update((bytes.len() as u64).to_le_bytes())
            .chain_update(bytes);
        Digest(hasher.finalize().into())
    }

    /// Where a chain begins.
    fn genesis(chain: &str, kind: &str) -> Digest {
        Digest(Sha256::digest(format!("estop journal 1\n{kind}\n{chain}")).into())
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let digits = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        hex::decode(digits.as_bytes())
            .map(Digest)
            .ok_or_else(|| serde::de::Error::custom("expected 64 lower-case hex digits"))
    }
}

/// How far a chain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Records so far.
    pub count: u64,
    /// Head of the event chain.
    pub events: Digest,
    /// Head of the decision chain.
    pub decisions: Digest,
}

impl Heads {
    pub(crate) fn new(chain: &str) -> Heads {
        Heads {
            count: 0,
            events: Digest::genesis(chain, "events"),
            decisions: Digest::genesis(chain, "decisions"),
        }
    }

    pub(crate) fn link(&self, event: &[u8], decision: &[u8]) -> Heads {
        Heads {
            count: self.count + 1,
            events: self.events.link(event),
            decisions: self.decisions.link(decision),
        }
    }
}

/// A chain's heads with its name, for checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// The chain.
    pub chain: Name,
    /// Records so far.
    pub count: u64,
    /// Head of the event chain.
    pub events: Digest,
    /// Head of the decision chain.
    pub decisions: Digest,
}

#[cfg(test)]
mod tests {
    use super::Digest;

    /// Computed by `sha256sum`: a link can be checked without estop.
    #[test]
    fn tw_7_a_link_is_the_sha_256_of_the_link_before_a_length_and_bytes() {
        let bytes: Vec<u8> = (0..100_u32).map(|n| (n * n % 251) as u8).collect();
        let link = Digest([7; 32]).link(&bytes);
        assert_eq!(link.to_string(), "d4c4f0b94adf269edf780714f422b967a306884ce19c8d26052d6fac28db75a5");
    }
}
