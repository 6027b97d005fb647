//! A "no" of estop: its problem document (RFC 9457), for people and for machines.

use std::fmt;

use estop_config::printable::escaped;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

/// Its own fields, all of which estop always writes.
#[derive(Deserialize)]
struct Own {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "title")]
    _title: String,
    status: u16,
    code: String,
    detail: String,
}

/// What a problem document of estop itself says. `None` if it is another's: anything may answer behind an address, and
/// only estop's own no is a no.
pub(crate) fn own_detail(status: u16, content_type: &str, body: &[u8]) -> Option<String> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let own: Own = serde_json::from_slice(body).ok()?;
    let is_own = essence.eq_ignore_ascii_case("application/problem+json")
        && own.status == status
        && own.kind.strip_prefix("/api/docs#") == Some(&own.code);
    is_own.then_some(own.detail)
}

/// What estop answered instead.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    /// It came over the owner's socket, where hardly anything needs a token.
    is_of_socket: bool,
    /// The problem document.
    pub document: Value,
    /// The agent that is probably meant by a name that is not known.
    pub(super) meant: Option<String>,
}

impl Refusal {
    /// Reads a problem document; `None` if it is none.
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Option<Refusal> {
        let document: Value = serde_json::from_slice(body).ok()?;
        document["detail"].is_string().then_some(Refusal {
            status,
            is_of_socket: false,
            document,
            meant: None,
        })
    }

    /// The same, given over the owner's socket.
    pub(crate) fn of_socket(self, is_of_socket: bool) -> Refusal {
        Refusal { is_of_socket, ..self }
    }

    /// Somebody changed it in between; nothing was done.
    pub fn is_stale(&self) -> bool {
        self.status == StatusCode::PRECONDITION_FAILED
    }

    /// What was asked is refused, and asking again or elsewhere does not help; not that estop is in trouble.
    pub fn is_callers_fault(&self) -> bool {
        self.status.is_client_error()
    }

    /// The name it says no agent has.
    pub(super) fn unknown_agent(&self) -> Option<&str> {
        self.document["detail"].as_str()?.strip_prefix("There is no agent `")?.strip_suffix("`.")
    }

    fn fix(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED if self.is_of_socket => {
                " Over the owner's socket only unlocking the emergency stop needs a token, an admin's: put a valid one into \
                 ESTOP_TOKEN or --token-file, or create a new one with `estop token reset`. For everything else show none."
            }
            StatusCode::UNAUTHORIZED => {
                " Put a valid token into ESTOP_TOKEN or --token-file. On estop's own machine none is needed: leave out \
                 --url, or create a new one there with `estop token reset`."
            }
            StatusCode::FORBIDDEN => {
                " Put a token with that role into ESTOP_TOKEN or --token-file; the first start wrote an admin token to the file \
                 admin-token in the data directory. Lost it? On estop's own machine: `estop token reset`."
            }
            _ => "",
        }
    }
}

/// The sentence, the fields that do not fit, and the fix; safe to print.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.document["detail"].as_str().unwrap_or_default();
        write!(f, "{}{}", escaped(detail), self.fix())?;
        match &self.meant {
            Some(meant) => write!(f, " Did you mean `{}`?", escaped(meant))?,
            None if self.unknown_agent().is_some() => write!(f, " `estop agents list` shows them all.")?,
            None => {}
        }
        let errors = self.document["errors"].as_array().map_or(&[][..], Vec::as_slice);
        for error in errors {
            let text = |key: &str| escaped(error[key].as_str().unwrap_or_default());
            let (field, message) = (text("field"), text("message"));
            // A single one is what the sentence says.
            if errors.len() > 1 || !detail.contains(error["message"].as_str().unwrap_or_default()) {
                write!(f, "\n  {field}: {message}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ks_5_a_wrong_token_is_answered_by_where_it_was_shown() {
        let body = br#"{"detail":"This token is not valid."}"#;
        let refusal = Refusal::read(StatusCode::UNAUTHORIZED, body).expect("it is one");
        let at_port = refusal.clone().of_socket(false).to_string();
        assert!(at_port.contains("leave out --url"), "{at_port}");
        let at_socket = refusal.of_socket(true).to_string();
        assert!(at_socket.contains("only unlocking") && !at_socket.contains("--url"), "{at_socket}");
    }

    #[test]
    fn a_problem_document_is_one_sentence_and_its_fields_on_one_line_each() {
        let one = br#"{"detail":"id: must be short","errors":[{"field":"id","message":"must be short"}]}"#;
        let shown = Refusal::read(StatusCode::BAD_REQUEST, one).expect("it is one").to_string();
        assert_eq!(shown, "id: must be short");
        let two = br#"{"detail":"a: x\n\u001b[2J","errors":[{"field":"a","message":"x\n\u001b[2J"},{"field":"b","message":"y"}]}"#;
        let shown = Refusal::read(StatusCode::BAD_REQUEST, two).expect("it is one").to_string();
        assert_eq!(shown, "a: x\\n\\u{1b}[2J\n  a: x\\n\\u{1b}[2J\n  b: y");
        assert!(Refusal::read(StatusCode::NOT_FOUND, b"<html>").is_none());
    }
}
