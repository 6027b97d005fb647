//! Ids of requests, as they were written and as they compare.

use crate::json::{Kind, ParseError, Raw};

/// The id of a request. Two spellings of one id are equal: a server may answer `"a"` to `"\u0061"`, and `1` to `1.0`.
#[derive(Clone, Debug)]
pub struct Id {
    /// As it was written: JSON.
    json: Box<str>,
    same: Box<str>,
}

/// No id is longer, as JSON. Each answer's is compared with those of all calls that are open, and clients count or use
/// UUIDs.
pub(super) const ID_BYTES_MAX: usize = 1_024;

/// Beyond this, readers that have only floats lose digits, so that no two spellings are taken for one.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

impl Id {
    /// The id in this value; `None` if it can be none, or is too long to be one.
    pub(super) fn of(raw: &Raw<'_>) -> Result<Option<Id>, ParseError> {
        if raw.text.len() > ID_BYTES_MAX {
            return Ok(None);
        }
        let same = match raw.kind() {
            Kind::String => format!("\"{}", raw.decoded()?),
            Kind::Number => number(raw.text),
            Kind::Null | Kind::Bool | Kind::Array | Kind::Object => return Ok(None),
        };
        Ok(Some(Id { json: raw.text.into(), same: same.into() }))
    }

    /// As its owner wrote it.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The same for all spellings of it.
    pub fn canonical(&self) -> &str {
        &self.same
    }
}

fn number(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => format!("{}", number as i64),
        Ok(_) | Err(_) => text.to_owned(),
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.same == other.same
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> std::cmp::Ordering {
        self.same.cmp(&other.same)
    }
}
