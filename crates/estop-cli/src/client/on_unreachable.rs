//! What becomes of tools while estop cannot be asked.

use super::caller::variable;

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

/// What is answered, and why that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreachableRule {
    pub(crate) on_unreachable: OnUnreachable,
    pub(crate) because: &'static str,
}

impl UnreachableRule {
    /// The option, else the variable, else: nothing runs unseen inside a run, and no client stops working outside.
    pub(crate) fn of(option: Option<OnUnreachable>, is_inside: bool) -> UnreachableRule {
        UnreachableRule::from(option, variable(ON_UNREACHABLE).as_deref(), is_inside)
    }

    fn from(option: Option<OnUnreachable>, said: Option<&str>, is_inside: bool) -> UnreachableRule {
        let (on_unreachable, because) = match (option, said) {
            (Some(option), _) => (option, "--on-unreachable says so"),
            (None, Some("deny")) => (OnUnreachable::Deny, "ESTOP_ON_UNREACHABLE says so"),
            (None, Some("allow")) => (OnUnreachable::Allow, "ESTOP_ON_UNREACHABLE says so"),
            (None, Some(_)) => (OnUnreachable::Deny, "ESTOP_ON_UNREACHABLE is neither deny nor allow"),
            (None, None) if is_inside => {
                (OnUnreachable::Deny, "inside a run every tool call must be checked")
            }
            (None, None) => (OnUnreachable::Allow, "outside a run, tools run without estop"),
        };
        UnreachableRule { on_unreachable, because }
    }

    /// Why a tool does not run, if it does not.
    pub(crate) fn refusal(&self, why: &str) -> Option<String> {
        let because = self.because;
        match self.on_unreachable {
            OnUnreachable::Deny => Some(format!(
                "estop refused this tool call: {why}, and {because}. Nothing is wrong with the call \
                 itself, and trying again does not help. Tell the person at the keyboard to start estop with `estop serve`."
            )),
            OnUnreachable::Allow => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_1_tools_run_unseen_only_outside_of_a_run_or_where_a_person_says_so() {
        let rule = |option, said, is_inside| UnreachableRule::from(option, said, is_inside).on_unreachable;
        assert_eq!(rule(None, None, false), OnUnreachable::Allow);
        assert_eq!(rule(None, None, true), OnUnreachable::Deny);
        assert_eq!(rule(Some(OnUnreachable::Allow), Some("deny"), true), OnUnreachable::Allow);
        assert_eq!(rule(Some(OnUnreachable::Deny), Some("allow"), false), OnUnreachable::Deny);
        assert_eq!(rule(None, Some("deny"), false), OnUnreachable::Deny);
        assert_eq!(rule(None, Some("allow"), true), OnUnreachable::Allow);
        assert_eq!(rule(None, Some("alow"), false), OnUnreachable::Deny);
    }
}
