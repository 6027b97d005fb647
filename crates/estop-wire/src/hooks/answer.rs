//! What a client reads from its hook, and the parts all contracts share.

use serde_json::{Value, json};

use super::{HookOut, HookVerdict};

/// Texts longer than this are cut: clients put them into the model's context, and some refuse long ones.
/// Ours are a few sentences; at half of it nothing would be lost either.
const TEXT_CHARS_MAX: usize = 8_000;

/// What a hook command gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
    /// The exit code.
    pub exit_code: u8,
}

impl HookAnswer {
    /// Nothing to say: no output, exit code 0. Every client goes on as if there were no hook.
    pub(super) fn nothing() -> HookAnswer {
        HookAnswer::default()
    }

    /// JSON, exit code 0.
    pub(super) fn json(value: &Value) -> HookAnswer {
        HookAnswer { stdout: value.to_string(), ..HookAnswer::default() }
    }

    /// JSON that refuses, and the same said a second way: exit code 2 with the reason on standard error. Where both are
    /// understood, either alone is enough, so a lost or cut output still refuses.
    pub(super) fn refusal(value: &Value, reason: &str) -> HookAnswer {
        HookAnswer { stdout: value.to_string(), stderr: reason.to_owned(), exit_code: 2 }
    }
}

/// An answer, looked at once: what is blank or too long is put right here.
pub(super) struct Plain {
    /// Why not; never empty. `None` if there is no objection.
    pub(super) reason: Option<String>,
    /// The whole run is to end.
    pub(super) ends: bool,
    /// What to tell the agent beside it; never empty.
    pub(super) context: Option<String>,
}

impl Plain {
    pub(super) fn of(out: &HookOut) -> Plain {
        let (reason, ends) = match &out.verdict {
            HookVerdict::Allow => (None, false),
            HookVerdict::Deny { reason } => (Some(reason), false),
            HookVerdict::End { reason } => (Some(reason), true),
        };
        // Codex runs the tool if the reason of a denial is empty.
        let reason = reason.map(|reason| cut(reason).unwrap_or_else(|| "estop refused this.".to_owned()));
        Plain { reason, ends, context: out.context.as_deref().and_then(cut) }
    }

    /// All there is to say where nothing can be refused.
    pub(super) fn words(&self) -> Option<String> {
        match (&self.reason, &self.context) {
            (Some(reason), Some(context)) => Some(format!("{reason}\n{context}")),
            (Some(text), None) | (None, Some(text)) => Some(text.clone()),
            (None, None) => None,
        }
    }

    /// Reason and context as one text, for contracts that have one place for both.
    pub(super) fn reason_with_context(&self) -> Option<String> {
        self.reason.as_ref().and_then(|_| self.words())
    }
}

/// `{"hookSpecificOutput":{"hookEventName":…,"additionalContext":…}}`, or nothing if there is no text.
pub(super) fn context(event_name: &str, text: Option<&str>) -> HookAnswer {
    match text {
        Some(text) => HookAnswer::json(
            &json!({"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": text}}),
        ),
        None => HookAnswer::nothing(),
    }
}

fn cut(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.chars().take(TEXT_CHARS_MAX).collect())
}
