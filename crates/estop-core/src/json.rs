//! How records and states are written.

use serde::Serialize;

/// Appends a value as JSON. Writing our own types into memory cannot fail: all keys of maps are texts or numbers.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    let written = serde_json::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "{written:?}");
    if written.is_err() {
        // Nothing is read as nothing; half of it might be taken for something.
        out.truncate(before);
    }
}
