//! The credentials of a request: which of them is an estop key, and whose.

use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Uri};

use super::IdentityError;
use super::keys::{Keys, is_meant_as_key, looks_made};

/// Where clients put the provider's key.
pub(crate) const CREDENTIAL_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// Where a client put estop keys in place of the provider's: all places, as SDKs may send one in several. In
/// `x-estop-key` they never travel on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyIn {
    /// In these headers.
    pub headers: Vec<HeaderName>,
    /// As `?key=`.
    pub query: bool,
}

/// The key that came with a request.
#[derive(Default)]
pub(super) struct Shown<'k> {
    pub(super) owner: Option<&'k str>,
    pub(super) key_in: KeyIn,
    /// A person chose it: it might be guessed.
    pub(super) by_chosen_key: bool,
}

impl<'k> Shown<'k> {
    fn see(&mut self, owner: &'k str, key: &[u8]) {
        if self.owner.is_none() {
            (self.owner, self.by_chosen_key) = (Some(owner), !looks_made(key));
        }
    }
}

/// The owner of the key that came with the request. A key given as estop's own must be one.
pub(super) fn key_owner<'k>(
    uri: &Uri,
    headers: &HeaderMap,
    own_key: Option<&HeaderValue>,
    keys: &'k Keys,
) -> Result<Shown<'k>, IdentityError> {
    let mut shown = Shown::default();
    if let Some(key) = own_key {
        shown.see(keys.owner(key.as_bytes()).ok_or(IdentityError::KeyUnknown)?, key.as_bytes());
    }
    // What looks like estop's key and is none goes to no provider, and acts as nobody.
    let find = |key: &[u8]| {
        let owner = if keys.is_empty() { None } else { keys.owner(key) };
        if owner.is_none() && is_meant_as_key(key) { Err(IdentityError::KeyUnknown) } else { Ok(owner) }
    };
    for name in CREDENTIAL_HEADERS {
        for value in headers.get_all(name) {
            let key =
                if name == AUTHORIZATION.as_str() { bearer(value.as_bytes()) } else { value.as_bytes() };
            if let Some(found) = find(key)? {
                shown.see(found, key);
                shown.key_in.headers.push(HeaderName::from_static(name));
            }
        }
    }
    for key in query_keys(uri) {
        if let Some(found) = find(key.as_bytes())? {
            shown.see(found, key.as_bytes());
            shown.key_in.query = true;
        }
    }
    Ok(shown)
}

fn bearer(value: &[u8]) -> &[u8] {
    match value.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") => key.trim_ascii(),
        _ => value,
    }
}

/// Whether there is any credential, whosever.
pub(super) fn sends_any(uri: &Uri, headers: &HeaderMap) -> bool {
    CREDENTIAL_HEADERS.iter().any(|name| headers.contains_key(*name)) || query_keys(uri).next().is_some()
}

/// `?key=…`, as Gemini clients may send it.
fn query_keys(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("key="))
}
