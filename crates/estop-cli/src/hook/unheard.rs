//! When estop cannot be asked: what is answered instead, in the client's own contract, and how that is said.

use estop_wire::hooks::{self, HookAnswer, HookEvent, HookIn, HookOut};

use super::payload::Moment;
use super::variable;

const ON_UNREACHABLE: &str = "ESTOP_ON_UNREACHABLE";

/// What to answer when estop cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnUnreachable {
    /// No tool runs.
    Deny,
    /// Tools run, and the person is told.
    Allow,
}

impl OnUnreachable {
    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            OnUnreachable::Deny => "deny",
            OnUnreachable::Allow => "allow",
        }
    }
}

/// Why there is no answer of estop.
pub(super) enum Unheard {
    /// Nobody answers, or not estop.
    Unreachable { moment: Moment, why: String },
    /// estop is there and has no yes: a ticket that is over, a wrong token, too much to do.
    Refused { moment: Moment, why: String },
    /// It cannot be asked like this: an address or a name that is none.
    Misused { moment: Moment, why: String },
    /// It need not be asked: nobody can read this payload.
    Unread(HookAnswer),
}

/// What is answered, and why that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    on_unreachable: OnUnreachable,
    because: &'static str,
}

/// The option, else the variable, else: nothing runs unseen inside a run, and no editor stops working outside.
pub(super) fn rule(option: Option<OnUnreachable>, names_run: bool) -> Rule {
    let is_inside = names_run || ["ESTOP_TICKET", "ESTOP_RUN"].iter().any(|name| variable(name).is_some());
    rule_of(option, variable(ON_UNREACHABLE).as_deref(), is_inside)
}

fn rule_of(option: Option<OnUnreachable>, said: Option<&str>, is_inside: bool) -> Rule {
    let (on_unreachable, because) = match (option, said) {
        (Some(option), _) => (option, "--on-unreachable says so"),
        (None, Some("deny")) => (OnUnreachable::Deny, "ESTOP_ON_UNREACHABLE says so"),
        (None, Some("allow")) => (OnUnreachable::Allow, "ESTOP_ON_UNREACHABLE says so"),
        (None, Some(_)) => (OnUnreachable::Deny, "ESTOP_ON_UNREACHABLE is neither deny nor allow"),
        (None, None) if is_inside => (OnUnreachable::Deny, "inside a run nothing runs unseen"),
        (None, None) => (OnUnreachable::Allow, "outside of a run tools do not wait for estop"),
    };
    Rule { on_unreachable, because }
}

impl Rule {
    pub(super) fn answer(&self, moment: &Moment, why: &str) -> HookAnswer {
        let Rule { on_unreachable, because } = self;
        match on_unreachable {
            OnUnreachable::Deny => refuse(
                moment,
                &format!(
                    "estop refused this, because it cannot be asked: {why}, and {because}. Nothing is wrong with the \
                     call itself, and trying again does not help. Tell the person at the keyboard to start estop with \
                     `estop serve`."
                ),
            ),
            OnUnreachable::Allow => {
                let line = format!(
                    "estop was not asked, and this runs unseen: {why}; {because}. Start estop with `estop serve`."
                );
                hooks::allow_and_tell(moment.client, moment.event, &moment.name, &line)
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_1_the_option_goes_before_the_variable_and_a_run_before_neither() {
        let told = |option, said, is_inside| rule_of(option, said, is_inside).on_unreachable;
        assert_eq!(told(Some(OnUnreachable::Allow), Some("deny"), true), OnUnreachable::Allow);
        assert_eq!(told(None, Some("deny"), false), OnUnreachable::Deny);
        assert_eq!(told(None, Some("allow"), true), OnUnreachable::Allow);
        assert_eq!(told(None, Some("alow"), false), OnUnreachable::Deny);
        assert_eq!(told(None, None, true), OnUnreachable::Deny);
        assert_eq!(told(None, None, false), OnUnreachable::Allow);
    }
}
