//! What becomes of calls when estop cannot be asked.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{OnUnreachable, UnreachableRule, variable};

/// The rule, said once.
#[derive(Debug)]
pub(super) struct Rule {
    rule: UnreachableRule,
    /// It was said already that calls run unseen.
    is_said: AtomicBool,
}

impl Rule {
    /// Inside a run nothing runs unseen. A ticket is of a run, whether or not that is named beside it.
    pub(super) fn of(option: Option<OnUnreachable>, names_run: bool) -> Rule {
        let is_inside = names_run || variable("ESTOP_TICKET").is_some();
        Rule { rule: UnreachableRule::of(option, is_inside), is_said: AtomicBool::new(false) }
    }

    /// Why a call does not run. Where it does, the person is told once.
    pub(super) fn refusal(&self, why: &str) -> Option<String> {
        let refusal = self.rule.refusal(why);
        if refusal.is_none() && !self.is_said.swap(true, Ordering::Relaxed) {
            let because = self.rule.because;
            eprintln!(
                "estop: {why}: tool calls are NOT checked ({because}). Start estop with `estop serve`."
            );
        }
        refusal
    }

    /// It can be asked again.
    pub(super) fn heard(&self) {
        self.is_said.store(false, Ordering::Relaxed);
    }
}
