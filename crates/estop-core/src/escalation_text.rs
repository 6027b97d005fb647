//! What people are told when a run needs them (CB-6, CB-8), in seed 3's words: a comment on the run's issue, and an issue
//! of its own. Pure: from what is stored of an escalation to a text.

use std::fmt::Write;

use crate::printed_command::Commands;
use crate::run::LimitUse;

/// Labels of the issue.
pub const LABELS: [&str; 2] = ["needs-human", "escalation"];

/// What is known of an escalated run.
#[derive(Clone, Copy, Debug)]
pub struct Escalated<'a> {
    /// Who speaks: `estop`.
    pub by: &'a str,
    /// Whose run.
    pub agent: &'a str,
    /// Its name; `None` = the implicit one.
    pub run: Option<&'a str>,
    /// The role it ran under.
    pub role: Option<&'a str>,
    /// The issue it worked on, as a number, `#7` or anything else.
    pub issue: Option<&'a str>,
    /// The limit it reached.
    pub limit: LimitUse,
    /// The agent's last words.
    pub summary: Option<&'a str>,
    /// Where its commits are.
    pub branch: Option<&'a str>,
    /// The client's session.
    pub session: Option<&'a str>,
}

impl Escalated<'_> {
    /// Why, as seed 3 says it.
    pub fn reason(&self) -> String {
        self.limit.reason()
    }

    /// The comment on the run's issue.
    pub fn comment(&self) -> String {
        let mut text = format!(
            "[{}:{}] ⚠️ Circuit breaker: {}\nProgress: {}\n",
            self.by,
            self.role(),
            self.reason(),
            self.summary()
        );
        // Writing to a text cannot fail.
        let _ = match self.branch {
            Some(branch) => write!(text, "Branch: {branch} — work preserved for human pickup."),
            None => write!(text, "Branch: not known — work preserved for human pickup."),
        };
        text
    }

    /// The title of the issue for people.
    pub fn issue_title(&self) -> String {
        let what = self.original().unwrap_or_else(|| match self.run {
            Some(run) => format!("{} / {run}", self.agent),
            None => self.agent.to_owned(),
        });
        format!("[needs-human] Agent escalation: {what} — {}", self.reason())
    }

    /// The body of the issue for people.
    pub fn issue_body(&self) -> String {
        let LimitUse { limit, current, max } = self.limit;
        let session = match self.session {
            Some(session) => format!("preserved on disk ({session})"),
            None => "not known".to_owned(),
        };
        format!(
            "- Original issue: {}\n- Agent role: {}\n- Circuit breaker: {}, {current}/{max}\n- Agent summary: {}\n\
             - Branch: {}\n- Session: {session}",
            self.original().as_deref().unwrap_or("none"),
            self.role(),
            limit.text(),
            self.summary(),
            self.branch.unwrap_or("not known"),
        )
    }

    /// An agent without a role is called by its name.
    fn role(&self) -> &str {
        self.role.unwrap_or(self.agent)
    }

    fn summary(&self) -> &str {
        self.summary.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("no summary provided")
    }

    /// A bare number is an issue's number.
    fn original(&self) -> Option<String> {
        let issue = self.issue?;
        let is_number = !issue.is_empty() && issue.bytes().all(|byte| byte.is_ascii_digit());
        Some(if is_number { format!("#{issue}") } else { issue.to_owned() })
    }
}

/// What a person can do about it, as commands.
pub fn what_next(agent: &str, run: Option<&str>, commands: &Commands) -> String {
    let extend = commands.extend(agent, run);
    let else_do = match run {
        Some(_) => "Else take over its branch, or start a fresh run.",
        // Requests that name no run belong to it: it ends by itself.
        None => "Else it may work again after 30 minutes without a request.",
    };
    format!("To let it go on with another full allowance: {extend}. {else_do}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::LimitName;

    const SEED: Escalated<'_> = Escalated {
        by: "squadron",
        agent: "coder",
        run: Some("issue-42"),
        role: Some("feat-dev"),
        issue: Some("42"),
        limit: LimitUse { limit: LimitName::ToolCalls, current: 200, max: 200 },
        summary: Some("Parser done, tests red."),
        branch: Some("feat/parser"),
        session: Some("01a1dc9c"),
    };

    #[test]
    fn cb_6_the_comment_is_seed_3_word_for_word() {
        assert_eq!(
            SEED.comment(),
            "[squadron:feat-dev] ⚠️ Circuit breaker: max tool calls (200/200)\n\
             Progress: Parser done, tests red.\n\
             Branch: feat/parser — work preserved for human pickup."
        );
        let silent = Escalated { summary: Some("  "), ..SEED };
        assert!(silent.comment().contains("\nProgress: no summary provided\n"));
    }

    #[test]
    fn cb_6_the_issue_is_seed_3_word_for_word() {
        assert_eq!(SEED.issue_title(), "[needs-human] Agent escalation: #42 — max tool calls (200/200)");
        assert_eq!(
            SEED.issue_body(),
            "- Original issue: #42\n\
             - Agent role: feat-dev\n\
             - Circuit breaker: max tool calls, 200/200\n\
             - Agent summary: Parser done, tests red.\n\
             - Branch: feat/parser\n\
             - Session: preserved on disk (01a1dc9c)"
        );
        assert_eq!(LABELS, ["needs-human", "escalation"]);
    }

    #[test]
    fn cb_8_what_is_not_known_is_said_so() {
        let bare = Escalated { role: None, issue: None, summary: None, branch: None, session: None, ..SEED };
        assert_eq!(
            bare.issue_title(),
            "[needs-human] Agent escalation: coder / issue-42 — max tool calls (200/200)"
        );
        assert_eq!(
            bare.issue_body(),
            "- Original issue: none\n- Agent role: coder\n- Circuit breaker: max tool calls, 200/200\n\
             - Agent summary: no summary provided\n- Branch: not known\n- Session: not known"
        );
        assert!(bare.comment().starts_with("[squadron:coder] "));
        let other = Escalated { issue: Some("PROJ-7"), ..SEED };
        assert!(other.issue_title().contains(": PROJ-7 — "));
    }
}
