//! The guards: their order, and for each what everybody around it needs to know. Journal, policy, gateway, API, dashboard and
//! commands read it from here; what a guard saw is [`crate::guards::Finding`].

use serde::{Deserialize, Serialize};

/// The guards, in the order they are asked (PO-1). The first that stops is the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// System and channel state: the red button.
    System,
    /// Whether the agent is active, inactive or paused.
    Agent,
    /// The state of its run.
    Run,
    /// Allowed hours.
    Hours,
    /// Which models may be asked (PO-7).
    Models,
    /// Rate limit.
    Rate,
    /// Budgets.
    Budget,
    /// Loop score and repetition (LD-1, LD-6 a–c).
    Loop,
    /// Same tool, same failure, other arguments (LD-6 d).
    Churn,
    /// Repetition inside an answer (LD-6 e).
    Chanting,
    /// Circuit breakers.
    Breaker,
    /// The safety gate.
    Gate,
    /// Health.
    Health,
    /// Runaway watchdog.
    Watchdog,
}

/// What a guard may do (PO-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It stops the agent.
    Enforce,
    /// It is computed and journaled as "would have stopped"; it never blocks.
    Shadow,
    /// It is not judged. (The gate is still computed and journaled.)
    Off,
}

/// What is to be known of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardInfo {
    /// Which.
    pub guard: Guard,
    /// Its name in journals, policies and headers.
    pub name: &'static str,
    /// Its switch; `None` = it always holds, and nobody can snooze it.
    pub switch: Option<Switch>,
    /// The stable word a client reads when it refuses.
    pub code: &'static str,
    /// What to do next, for whoever sits at the client; with the agent's name where `{agent}` stands. Models read it too: it
    /// names what a person must do, and never a command that does it.
    pub next_step: &'static str,
    /// What a hook answers; with the agent's name where `{agent}` stands.
    pub hook: HookRefusal,
}

/// The switch `guards.NAME` of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The mode in the preset `watch`. In `strict` every guard is enforced.
    pub in_watch: Mode,
    /// Whether every policy of a journal names its mode.
    pub recorded: Recorded,
    /// What it is called on the dashboard.
    pub label: &'static str,
    /// What the dashboard says beside it.
    pub hint: &'static str,
}

/// How the mode of a guard is written to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Always: the guard is as old as the format.
    Always,
    /// After the others, and left out where it is `enforce`. So journals that are older than the guard still read: it is
    /// enforced there and has nothing to enforce. Every new guard is written so.
    UnlessEnforced,
}

/// What a hook answers when a guard refuses, beside the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRefusal {
    /// What was asked is refused, and the model is told what to do next.
    Deny(&'static str),
    /// The whole run ends, since nothing the agent could do would change it.
    End(&'static str),
    /// Its tools are refused, and it is left its words to sum up.
    SumUp,
}

/// Said where an agent is off until a person switches it on.
const REPORT: &str = "Stop working now and tell the person that agent {agent} was stopped: they must review what it did and \
    reactivate it.";
/// Said where a person is to look, and it goes on by itself then.
pub const WAIT: &str = "Stop working now and wait until a person lets the agent go on.";
/// Said where there is nothing to wait for.
pub const OVER: &str = "Stop working now.";

const REVIEW: &str = "A person must review what agent {agent} did and reactivate it.";
const EXTEND: &str = "A person can extend this run of agent {agent}, or start a new one.";
const SLOW_DOWN: &str = "Slow down and try again.";

/// The guards, one row for each. Where the words depend on what a guard saw, `reasons.rs` and `hooks/verdict.rs` of the gateway
/// have them.
static GUARDS: [GuardInfo; 14] = [
    GuardInfo {
        guard: Guard::System,
        name: "system",
        switch: None,
        code: "system",
        next_step: "An admin must clear it before agents can go on.",
        hook: HookRefusal::End("An admin must clear it before agents can go on."),
    },
    GuardInfo {
        guard: Guard::Agent,
        name: "agent",
        switch: None,
        code: "kill_switch",
        next_step: REVIEW,
        hook: HookRefusal::End(REPORT),
    },
    GuardInfo {
        guard: Guard::Run,
        name: "run",
        switch: None,
        code: "circuit_breaker",
        next_step: EXTEND,
        hook: HookRefusal::SumUp,
    },
    GuardInfo {
        guard: Guard::Hours,
        name: "hours",
        switch: Some(Switch::enforced("Allowed hours")),
        code: "hours",
        next_step: "Try again within the allowed hours.",
        hook: HookRefusal::Deny("Stop for now; try again within these hours."),
    },
    GuardInfo {
        guard: Guard::Models,
        name: "models",
        switch: Some(Switch { recorded: Recorded::UnlessEnforced, ..Switch::enforced("Models") }),
        code: "model_not_allowed",
        next_step: "Use a model that the policy of agent {agent} allows; a person can change the policy.",
        hook: HookRefusal::Deny(OVER),
    },
    GuardInfo {
        guard: Guard::Rate,
        name: "rate",
        switch: Some(Switch::enforced("Rates")),
        code: "rate_limit",
        next_step: SLOW_DOWN,
        hook: HookRefusal::Deny("Wait a minute, then go on slowly."),
    },
    GuardInfo {
        guard: Guard::Budget,
        name: "budget",
        switch: Some(Switch::enforced("Budgets")),
        code: "budget",
        next_step: "A person can raise the budget of agent {agent}; otherwise wait for its next period.",
        hook: HookRefusal::Deny(OVER),
    },
    GuardInfo {
        guard: Guard::Loop,
        name: "loop",
        switch: Some(Switch::watching("Loops")),
        code: "kill_switch",
        next_step: REVIEW,
        hook: HookRefusal::Deny(OVER),
    },
    GuardInfo {
        guard: Guard::Churn,
        name: "churn",
        switch: Some(Switch::watching("Same failure, other arguments")),
        code: "kill_switch",
        next_step: REVIEW,
        hook: HookRefusal::Deny(OVER),
    },
    GuardInfo {
        guard: Guard::Chanting,
        name: "chanting",
        switch: Some(Switch::watching("Repetition inside an answer")),
        code: "kill_switch",
        next_step: REVIEW,
        hook: HookRefusal::Deny(OVER),
    },
    GuardInfo {
        guard: Guard::Breaker,
        name: "breaker",
        switch: Some(Switch {
            hint: "in watch, unattended named runs are stopped all the same",
            ..Switch::watching("Limits of runs")
        }),
        code: "circuit_breaker",
        next_step: EXTEND,
        hook: HookRefusal::SumUp,
    },
    GuardInfo {
        guard: Guard::Gate,
        name: "gate",
        switch: Some(Switch::watching("Safety gate")),
        code: "gate",
        next_step: SLOW_DOWN,
        hook: HookRefusal::Deny("Wait a minute, then go on slowly."),
    },
    GuardInfo {
        guard: Guard::Health,
        name: "health",
        switch: Some(Switch::watching("Health")),
        code: "health",
        next_step: REVIEW,
        hook: HookRefusal::Deny(WAIT),
    },
    GuardInfo {
        guard: Guard::Watchdog,
        name: "watchdog",
        switch: Some(Switch::enforced("Runaway watchdog")),
        code: "watchdog",
        next_step: REVIEW,
        hook: HookRefusal::Deny(WAIT),
    },
];

/// A text of [`GuardInfo`] for one agent.
pub fn for_agent(text: &str, agent: &str) -> String {
    text.replace("{agent}", agent)
}

impl Guard {
    /// All of them, in order.
    pub const ALL: [Guard; GUARDS.len()] = {
        let mut all = [Guard::System; GUARDS.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = GUARDS[place].guard;
            place += 1;
        }
        all
    };

    /// Those with a switch, in the order in which people are shown them.
    pub const SWITCHES: [Guard; 11] = [
        Guard::Loop,
        Guard::Churn,
        Guard::Chanting,
        Guard::Breaker,
        Guard::Gate,
        Guard::Health,
        Guard::Watchdog,
        Guard::Hours,
        Guard::Rate,
        Guard::Budget,
        Guard::Models,
    ];

    /// What is to be known of it.
    pub const fn info(self) -> &'static GuardInfo {
        &GUARDS[self.place()]
    }

    /// Its name in journals, policies and headers.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The guard of this name.
    pub fn named(name: &str) -> Option<Guard> {
        Guard::ALL.into_iter().find(|guard| guard.name() == name)
    }

    /// Its place in the order.
    pub const fn place(self) -> usize {
        self as usize
    }

    /// Those that a person may have work as in shadow for a while (PO-7), in order. The red button, a person's stop and the
    /// end of a run always hold.
    pub fn snoozable() -> impl Iterator<Item = Guard> {
        Guard::ALL.into_iter().filter(|guard| guard.can_be_snoozed())
    }

    /// Whether a person may have it work as in shadow for a while (PO-7).
    pub fn can_be_snoozed(self) -> bool {
        self.info().switch.is_some()
    }
}

impl Switch {
    /// Enforced in every preset: it has nothing to enforce until somebody sets a number or a rule.
    const fn enforced(label: &'static str) -> Switch {
        Switch { in_watch: Mode::Enforce, recorded: Recorded::Always, label, hint: "" }
    }

    /// Only watched until somebody asks for more.
    const fn watching(label: &'static str) -> Switch {
        Switch { in_watch: Mode::Shadow, recorded: Recorded::Always, label, hint: "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn po_1_each_guard_has_its_place_and_its_own_name() {
        for (place, guard) in Guard::ALL.into_iter().enumerate() {
            assert_eq!(guard.place(), place, "{guard:?}");
            assert_eq!(Guard::named(guard.name()), Some(guard));
            let written = serde_json::to_string(&guard).expect("a name");
            assert_eq!(written, format!("\"{}\"", guard.name()), "in the journal as everywhere");
        }
    }

    #[test]
    fn an_2_no_text_a_model_reads_names_a_command_that_lets_it_go_on() {
        let texts = Guard::ALL.into_iter().flat_map(|guard| {
            let hook = match guard.info().hook {
                HookRefusal::Deny(text) | HookRefusal::End(text) => text,
                HookRefusal::SumUp => "",
            };
            [guard.info().next_step, hook]
        });
        for text in texts.chain([WAIT, OVER]) {
            let text = for_agent(text, "coder");
            assert!(!text.contains("estop ") && !text.contains(['`', '{']), "{text}");
            let asks_a_person = text.contains("erson") || text.contains("admin");
            assert!(asks_a_person || !text.contains("activate"), "a person activates: {text}");
        }
    }

    #[test]
    fn po_4_every_guard_with_a_switch_is_among_the_switches_once() {
        let mut switches = Guard::SWITCHES.to_vec();
        switches.sort();
        assert_eq!(switches, Guard::snoozable().collect::<Vec<_>>());
    }
}
