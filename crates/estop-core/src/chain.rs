//! A hash chain (TW-7): each link covers the one before it, so that nothing can be changed or left out unnoticed.

mod link;
mod strands;
mod wide;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::ids::Name;

#[cfg(test)]
pub(crate) use strands::levels;
pub(crate) use strands::{Strand, Wanted, is_quicker, link_all, wide_level};

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

    /// The next links of two chains.
    pub(crate) fn link_both(
        (a, a_bytes): (Digest, &[u8]),
        (b, b_bytes): (Digest, &[u8]),
    ) -> (Digest, Digest) {
        let (a, b) = link::link_both((&a.0, a_bytes), (&b.0, b_bytes));
        (Digest(a), Digest(b))
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
        let (events, decisions) = Digest::link_both((self.events, event), (self.decisions, decision));
        Heads { count: self.count + 1, events, decisions }
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
