//! What becomes of calls when estop cannot be asked.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::hook::OnUnreachable;

const ON_UNREACHABLE: &str = "ESTOP_ON_UNREACHABLE";

/// What becomes of them, and why that.
#[derive(Debug)]
pub(super) struct Rule {
    on_unreachable: OnUnreachable,
    because: &'static str,
    /// It was said already that calls run unseen.
    is_said: AtomicBool,
}

impl Rule {
    /// The option, else the variable, else: nothing runs unseen inside a run, and no client stops working outside.
    pub(super) fn of(option: Option<OnUnreachable>, names_run: bool) -> Rule {
        let said = |name: &str| std::env::var(name).ok().filter(|said| !said.is_empty());
        // A ticket is of a run, whether or not that is named beside it.
        let is_inside = names_run || said("ESTOP_TICKET").is_some();
        Rule::from(option, said(ON_UNREACHABLE).as_deref(), is_inside)
    }

    fn from(option: Option<OnUnreachable>, said: Option<&str>, is_inside: bool) -> Rule {
        let (on_unreachable, because) = match (option, said) {
            (Some(option), _) => (option, "--on-unreachable says so"),
            (None, Some("deny")) => (OnUnreachable::Deny, "ESTOP_ON_UNREACHABLE says so"),
            (None, Some("allow")) => (OnUnreachable::Allow, "ESTOP_ON_UNREACHABLE says so"),
            (None, Some(_)) => (OnUnreachable::Deny, "ESTOP_ON_UNREACHABLE is neither deny nor allow"),
            (None, None) if is_inside => (OnUnreachable::Deny, "inside a run nothing runs unseen"),
            (None, None) => (OnUnreachable::Allow, "outside of a run tools do not wait for estop"),
        };
        Rule { on_unreachable, because, is_said: AtomicBool::new(false) }
    }

    /// Why a call does not run. Where it does, the person is told once.
    pub(super) fn refusal(&self, why: &str) -> Option<String> {
        let because = self.because;
        match self.on_unreachable {
            OnUnreachable::Deny => Some(format!(
                "estop refused this, because it cannot be asked: {why}, and {because}. Nothing is wrong with the call \
                 itself, and trying again does not help. Tell the person at the keyboard to start estop with `estop serve`."
            )),
            OnUnreachable::Allow => {
                if !self.is_said.swap(true, Ordering::Relaxed) {
                    eprintln!(
                        "estop: estop was not asked, and tools run unseen: {why}; {because}. Start estop with `estop serve`."
                    );
                }
                None
            }
        }
    }

    /// It can be asked again.
    pub(super) fn heard(&self) {
        self.is_said.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_3_calls_run_unseen_only_outside_of_a_run_or_where_a_person_says_so() {
        let told = |option, said, is_inside| Rule::from(option, said, is_inside).refusal("x").is_none();
        assert!(told(None, None, false));
        assert!(!told(None, None, true));
        assert!(told(Some(OnUnreachable::Allow), Some("deny"), true));
        assert!(!told(Some(OnUnreachable::Deny), Some("allow"), false));
        assert!(!told(None, Some("alow"), false));
    }
}
