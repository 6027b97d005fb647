//! Why there is no answer of estop: as a sentence with the fix for a person, and as a part of one for those who go on
//! without it.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::refusal::Refusal;

const START: &str = "Start it with `estop serve`";

/// Why there is no answer to show.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered, or not estop.
    #[error("{0}")]
    Unreachable(String),
    /// estop said no.
    #[error("{0}")]
    Refused(Refusal),
}

impl From<TransportError> for ClientError {
    fn from(error: TransportError) -> ClientError {
        ClientError::Unreachable(error.to_string())
    }
}

/// Why nothing came back.
#[derive(Debug)]
pub(crate) enum TransportError {
    /// Nobody listens there, or not for this user.
    Connect(Endpoint, Error),
    Broken(Endpoint, hyper::Error),
    /// The answer began, and did not end.
    CutShort(Endpoint, Box<dyn std::error::Error + Send + Sync>),
    TimedOut(Endpoint, Duration),
    /// It cannot be written as HTTP.
    Request(http::Error),
}

impl From<http::Error> for TransportError {
    fn from(error: http::Error) -> TransportError {
        TransportError::Request(error)
    }
}

impl std::error::Error for TransportError {}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportError::Connect(Endpoint::Socket(path), error) => f.write_str(&no_socket(path, error)),
            TransportError::Connect(endpoint @ Endpoint::Tcp { .. }, error) => write!(
                f,
                "cannot reach estop at {endpoint}: {}. {START}, or check --url: it is the admin port, \
                 `listen.admin` of the configuration.",
                plain(error)
            ),
            TransportError::Broken(endpoint, error) => {
                write!(f, "the connection to estop at {endpoint} broke: {error}. Try again.")
            }
            TransportError::CutShort(endpoint, error) => {
                write!(f, "the answer of estop at {endpoint} broke off: {error}. Try again.")
            }
            TransportError::TimedOut(endpoint, within) => {
                write!(f, "estop did not answer within {} s ({endpoint}).", within.as_secs_f32())
            }
            TransportError::Request(error) => error.fmt(f),
        }
    }
}

impl TransportError {
    /// As the beginning of a sentence: "estop is not running (…): this tool call was NOT checked".
    pub(crate) fn clause(&self) -> String {
        match self {
            TransportError::Connect(Endpoint::Socket(path), error) => {
                let path = path.display();
                let kind = error.kind();
                if kind == ErrorKind::NotFound {
                    format!("estop is not running (there is no socket {path})")
                } else if kind == ErrorKind::ConnectionRefused {
                    format!("estop is not running (nobody listens on {path})")
                } else if kind == ErrorKind::PermissionDenied {
                    format!(
                        "estop cannot be reached ({path} is for its owner alone, and this is another user)"
                    )
                } else {
                    format!("estop cannot be reached ({path}: {})", plain(error))
                }
            }
            TransportError::Connect(endpoint @ Endpoint::Tcp { .. }, error) => {
                format!("estop cannot be reached at {endpoint} ({})", plain(error))
            }
            TransportError::Broken(endpoint, error) => {
                format!("the connection to estop at {endpoint} broke ({error})")
            }
            TransportError::CutShort(_, error) => format!("estop's answer broke off ({error})"),
            TransportError::TimedOut(_, within) => {
                format!("estop gave no answer within {} s", within.as_secs_f32())
            }
            TransportError::Request(error) => error.to_string(),
        }
    }
}

/// What the system says, without the number it has for it.
fn plain(error: &Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn no_socket(path: &Path, error: &Error) -> String {
    let path = path.display();
    let elsewhere = "with the same --config or --data-dir, or name the running one with --data-dir or --url";
    let why = if error.kind() == ErrorKind::PermissionDenied {
        return format!(
            "cannot reach estop: {path} is its owner's alone. Run this as the user estop runs as, or use --url with a \
             token."
        );
    } else if error.kind() == ErrorKind::NotFound {
        format!("there is no socket {path}")
    } else if error.kind() == ErrorKind::ConnectionRefused {
        format!("nobody listens on {path}")
    } else {
        format!("{path}: {}", plain(error))
    };
    format!("cannot reach estop: {why}. {START} {elsewhere}.")
}
