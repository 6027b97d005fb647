//! Commands that texts tell people to type: each can be copied as it stands.
//!
//! Whoever prints one makes it here, with the options by which the command finds this estop where it is not in its usual
//! place. `crates/estop/tests/it/printed_commands.rs` runs each of them.

/// Makes commands for one estop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Follows every command: nothing, or ` --data-dir /srv/estop`.
    options: Box<str>,
}

impl Commands {
    /// Of an estop that keeps everything in this folder, which commands do not find by themselves.
    pub fn of_data_dir(folder: &str) -> Commands {
        Commands::default().with("--data-dir", folder)
    }

    /// The same with one more option.
    #[must_use]
    pub fn with(self, option: &str, value: &str) -> Commands {
        Commands { options: format!("{} {option} {}", self.options, shell_word(value)).into() }
    }

    /// Any command: `estop`, what is given, and the options.
    pub fn make(&self, arguments: &str) -> String {
        format!("estop {arguments}{}", self.options)
    }

    /// Lets a stopped agent work again.
    pub fn activate(&self, agent: &str) -> String {
        self.make(&format!("agents activate {}", shell_word(agent)))
    }

    /// Lets a paused agent go on.
    pub fn resume(&self, agent: &str) -> String {
        self.make(&format!("agents resume {}", shell_word(agent)))
    }

    /// Has loops stop an agent.
    pub fn stop_loops(&self, agent: &str) -> String {
        self.make(&format!("agents loop-guard {} --on", shell_word(agent)))
    }

    /// Gives a run another full allowance; `None` = the run without a name.
    pub fn extend(&self, agent: &str, run: Option<&str>) -> String {
        self.make(&format!("runs extend {} {}", shell_word(agent), shell_word(run.unwrap_or_default())))
    }

    /// Has an agent's budget begin the present day and month.
    pub fn renew_budget(&self, agent: &str) -> String {
        self.make(&format!("budgets renew {}", shell_word(agent)))
    }

    /// Has every budget begin the present day and month.
    pub fn renew_budgets(&self) -> String {
        self.make("budgets renew --all")
    }

    /// Says that somebody looks at an incident.
    pub fn acknowledge(&self, incident: &str) -> String {
        self.make(&format!("incidents ack {}", shell_word(incident)))
    }

    /// Says that an incident is done.
    pub fn resolve(&self, incident: &str) -> String {
        self.make(&format!("incidents resolve {}", shell_word(incident)))
    }

    /// Which runs need a person.
    pub fn escalations(&self, agent: &str) -> String {
        self.make(&format!("escalations list --agent {}", shell_word(agent)))
    }

    /// How the emergency stop stands.
    pub fn emergency_status(&self) -> String {
        self.make("emergency status")
    }

    /// SHUTDOWN → SAFE_MODE.
    pub fn emergency_unlock(&self) -> String {
        self.make("emergency unlock")
    }

    /// SAFE_MODE → RUNNING.
    pub fn emergency_clear(&self) -> String {
        self.make("emergency clear")
    }
}

/// One word for a shell, whatever is in it. Line breaks become spaces.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("'{}'", line.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_2_a_command_can_be_copied_whatever_is_in_it() {
        let usual = Commands::default();
        assert_eq!(usual.extend("coder", None), "estop runs extend coder ''");
        assert_eq!(usual.extend("coder", Some("issue-8")), "estop runs extend coder issue-8");
        let elsewhere = Commands::of_data_dir("/srv/my data/it's");
        assert_eq!(elsewhere.emergency_clear(), "estop emergency clear --data-dir '/srv/my data/it'\\''s'");
        assert_eq!(shell_word("--force"), "'--force'");
        assert_eq!(shell_word("a\nb"), "'a b'");
    }
}
