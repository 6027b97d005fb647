//! When estop cannot be asked: what is answered instead, in the client's own contract, and how that is said.

use estop_wire::hooks::{self, HookAnswer, HookEvent, HookIn, HookOut};

use super::payload::Moment;
use crate::client::{OnUnreachable, UnreachableRule, variable};

/// Why there is no answer of estop.
pub(super) enum NoAnswer {
    /// Nobody answers, or not estop.
    Unreachable { moment: Moment, why: String },
    /// estop is there and has no yes: a ticket that is over, a wrong token, too much to do.
    Refused { moment: Moment, why: String },
    /// It cannot be asked like this: an address or a name that is none.
    Misused { moment: Moment, why: String },
    /// It need not be asked: nobody can read this payload.
    Unread(HookAnswer),
}

/// Inside a run nothing runs unseen.
pub(super) fn rule(option: Option<OnUnreachable>, names_run: bool) -> UnreachableRule {
    let is_inside = names_run || ["ESTOP_TICKET", "ESTOP_RUN"].iter().any(|name| variable(name).is_some());
    UnreachableRule::of(option, is_inside)
}

/// Nobody answers: what the rule says.
pub(super) fn by_rule(rule: UnreachableRule, moment: &Moment, why: &str) -> HookAnswer {
    if let Some(reason) = rule.refusal(why) {
        return refuse(moment, &reason);
    }
    let because = rule.because;
    let line = format!("{why}: this tool call was NOT checked ({because}). Start estop with `estop serve`.");
    hooks::allow_and_tell(moment.client, moment.event, &moment.name, &line)
}

/// The hook is installed or called in a way that cannot work.
pub(super) fn misused(moment: &Moment, why: &str) -> HookAnswer {
    let reason = format!(
        "estop refused this, because its hook cannot work: {why}. Nothing is wrong with the call itself. Tell the \
         person at the keyboard to run `estop install {}` again.",
        moment.client.name()
    );
    refuse(moment, &reason)
}

/// estop itself says no.
pub(super) fn refused(moment: &Moment, why: &str) -> HookAnswer {
    let why = why.trim_end_matches('.');
    let reason = format!(
        "estop refused this, because it does not take the question: {why}. Nothing is wrong with the call itself. Tell \
         the person at the keyboard; `estop doctor` may say more."
    );
    refuse(moment, &reason)
}

/// It cannot be asked, and its button is pressed.
pub(super) fn pressed(moment: &Moment, why: &str) -> HookAnswer {
    refuse(moment, why)
}

/// A mistake of ours.
pub(super) fn broken(moment: &Moment) -> HookAnswer {
    refuse(
        moment,
        "estop refused this, because its hook failed in a way it should not: please report it. Nothing is wrong with \
         the call itself. Tell the person at the keyboard.",
    )
}

/// Refused before a tool; elsewhere nothing, which no client minds. A prompt passes: the model asks for a tool and is told
/// why not, while Codex swallows a prompt it may not take without a word.
fn refuse(moment: &Moment, reason: &str) -> HookAnswer {
    let out = match moment.event {
        HookEvent::ToolRequested => HookOut::deny(reason),
        HookEvent::SessionStarted
        | HookEvent::PromptSubmitted
        | HookEvent::ToolFinished
        | HookEvent::TurnEnded
        | HookEvent::SubagentEnded
        | HookEvent::SessionEnded
        | HookEvent::Other => HookOut::allow(),
    };
    hooks::write(&HookIn::empty(moment.client, moment.event, &moment.name), &out)
}
