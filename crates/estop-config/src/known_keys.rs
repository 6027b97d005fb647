//! Which keys a section has.

use serde::de::DeserializeOwned;
use serde_saphyr::Error;

/// The keys of a section. The type knows them; asked for one it cannot have, it lists them.
pub(super) fn keys_of<T: DeserializeOwned>() -> Vec<&'static str> {
    let refused = serde_saphyr::from_str::<T>("{'': }").err();
    match refused.as_ref().map(Error::without_snippet) {
        Some(Error::SerdeUnknownField { expected, .. }) => expected.clone(),
        _ => Vec::new(),
    }
}
