//! Names and numbers that tell things apart. Plain values; nothing here generates one.

use serde::{Deserialize, Serialize};

/// A name as users write it: an agent, a run, a tool, a model.
pub type Name = Box<str>;

macro_rules! number_id {
    ($(#[$doc:meta])* $id:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $id(pub u64);
    };
}

number_id! {
    /// One request to a model, unique within its agent.
    RequestId
}
number_id! {
    /// One tool call seen by a hook, unique within its agent.
    CallId
}

/// A 64-bit content hash. Written as 16 hex digits, because JSON readers lose bits beyond 2^53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash64(pub u64);

impl std::fmt::Debug for Hash64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Hash64 {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        crate::hex::serialize(self.0, s)
    }
}

impl<'de> Deserialize<'de> for Hash64 {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        crate::hex::deserialize(d).map(Hash64)
    }
}
