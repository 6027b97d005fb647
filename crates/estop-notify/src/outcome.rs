//! How a try to send ended, and what that means for the alert.

use std::fmt::Display;

use http::StatusCode;

use crate::net::Answer;
use crate::plain::one_line;

/// How a try ended. Texts have no secret in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It arrived.
    Delivered(String),
    /// The receiver is away, overloaded or not set up right: it is tried again for a day.
    Failed {
        /// What happened.
        detail: String,
        /// The receiver asked for this pause.
        after_ms: Option<i64>,
    },
    /// The receiver understood and does not want this very message: it is tried a few times.
    Refused(String),
}

impl SendOutcome {
    /// A failure without a wish.
    pub(crate) fn failed(detail: impl Display) -> SendOutcome {
        SendOutcome::Failed { detail: detail.to_string(), after_ms: None }
    }

    /// What is said about it.
    pub(crate) fn detail(&self) -> &str {
        match self {
            SendOutcome::Delivered(detail)
            | SendOutcome::Refused(detail)
            | SendOutcome::Failed { detail, .. } => detail,
        }
    }

    /// The same with another text.
    pub(crate) fn map(self, change: impl FnOnce(String) -> String) -> SendOutcome {
        match self {
            SendOutcome::Delivered(detail) => SendOutcome::Delivered(change(detail)),
            SendOutcome::Refused(detail) => SendOutcome::Refused(change(detail)),
            SendOutcome::Failed { detail, after_ms } => {
                SendOutcome::Failed { detail: change(detail), after_ms }
            }
        }
    }
}

/// What an answer of a webhook means.
pub(crate) fn of_answer(answer: &Answer) -> SendOutcome {
    let status = answer.status;
    let said = one_line(&String::from_utf8_lossy(&answer.body), 200);
    let detail = if said.is_empty() { format!("{status}") } else { format!("{status}: {said}") };
    if status.is_success() {
        return SendOutcome::Delivered(format!("{status}"));
    }
    if status.is_redirection() {
        return SendOutcome::failed(format!(
            "{status}: redirects are not followed; write the final URL into the channel"
        ));
    }
    let is_about_the_message = [
        StatusCode::BAD_REQUEST,
        StatusCode::PAYLOAD_TOO_LARGE,
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        StatusCode::UNPROCESSABLE_ENTITY,
    ];
    if is_about_the_message.contains(&status) {
        return SendOutcome::Refused(detail);
    }
    SendOutcome::Failed { detail, after_ms: asked_pause(answer) }
}

/// The pause a receiver asks for: a header in seconds, or what Telegram and Discord write into the answer.
fn asked_pause(answer: &Answer) -> Option<i64> {
    let header = answer.seconds("retry-after").map(|seconds| seconds.saturating_mul(1000));
    header.or_else(|| {
        let body: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
        if let Some(seconds) = body["parameters"]["retry_after"].as_i64() {
            return Some(seconds.saturating_mul(1000));
        }
        let seconds = body["retry_after"].as_f64()?;
        // Discord says fractions of a second; a pause is never shorter than asked.
        (seconds.is_finite() && seconds >= 0.0).then_some((seconds.min(86_400.0) * 1000.0).ceil() as i64)
    })
}
