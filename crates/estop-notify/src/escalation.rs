//! The texts of an escalation to a human for GitHub: a comment, a commit status, an issue. The words are the core's
//! (`escalation_text.rs`, seed 3); here they become Markdown that calls nobody, with a mark by which they are found again.

use estop_core::escalation_text::Escalated;
use estop_core::guards::breaker::LimitUse;

use crate::alert_event::EscalationSeen;
use crate::message::Message;
use crate::plain::{few_lines, one_line, within_bytes};
use crate::render::markdown;

pub(crate) use estop_core::escalation_text::LABELS;

/// GitHub takes so many characters of a status' description.
const DESCRIPTION_MAX: usize = 140;
/// And so many bytes of a title are safe.
const TITLE_MAX: usize = 250;

/// A mark nobody sees, by which the same escalation is found again.
pub(crate) fn marker(id: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Two dashes would end the comment.
    let safe: String =
        id.chars().map(|c| if is_safe(c) { c } else { '_' }).collect::<String>().replace("--", "__");
    format!("<!-- estop:escalation:{safe} -->")
}

/// The number of the run's issue, if it names one.
pub(crate) fn issue_number(seen: &EscalationSeen) -> Option<u64> {
    let issue = seen.issue.as_deref()?.trim();
    issue.strip_prefix('#').unwrap_or(issue).parse().ok()
}

/// The comment on the run's issue.
pub(crate) fn comment(message: &Message, seen: &EscalationSeen) -> String {
    let text = EscapedEscalation::new(message, seen, markdown).escalated().comment();
    // One line end is a space to Markdown.
    format!("{}\n\n{}\n", text.replace('\n', "  \n"), marker(&seen.id))
}

/// Context and description of the commit status.
pub(crate) fn status(message: &Message, seen: &EscalationSeen) -> (String, String) {
    let role = seen.role.as_deref().or(message.agent.as_deref()).unwrap_or("agent");
    let reason = EscapedEscalation::new(message, seen, str::to_owned).escalated().reason();
    let description = format!("Circuit breaker: {reason}. A human is needed.");
    let description: String = description.chars().take(DESCRIPTION_MAX).collect();
    (format!("estop/{}", one_line(role, 64)), description)
}

/// Title and body of the escalation issue. Titles are no Markdown.
pub(crate) fn issue(message: &Message, seen: &EscalationSeen) -> (String, String) {
    let title = EscapedEscalation::new(message, seen, str::to_owned).escalated().issue_title();
    let body = EscapedEscalation::new(message, seen, markdown).escalated().issue_body();
    (within_bytes(&title, TITLE_MAX), format!("{body}\n\n{}\n", marker(&seen.id)))
}

/// What is known of an escalation, escaped for where it is shown.
struct EscapedEscalation {
    agent: String,
    run: Option<String>,
    role: Option<String>,
    issue: Option<String>,
    limit: LimitUse,
    summary: Option<String>,
    branch: Option<String>,
    session: Option<String>,
}

impl EscapedEscalation {
    fn new(message: &Message, seen: &EscalationSeen, escape: impl Fn(&str) -> String) -> EscapedEscalation {
        let name = |name: &Option<Box<str>>| name.as_deref().map(|name| escape(&one_line(name, 120)));
        let summary = |text: &String| escape(&few_lines(text, 40, 500)).replace('\n', "\n  ");
        EscapedEscalation {
            agent: escape(message.agent.as_deref().unwrap_or("agent")),
            run: name(&message.run),
            role: name(&seen.role),
            issue: issue_number(seen).map(|number| number.to_string()).or_else(|| name(&seen.issue)),
            limit: seen.limit,
            summary: seen.summary.as_ref().map(summary),
            branch: name(&seen.branch),
            session: name(&seen.session),
        }
    }

    fn escalated(&self) -> Escalated<'_> {
        Escalated {
            by: "estop",
            agent: &self.agent,
            run: self.run.as_deref(),
            role: self.role.as_deref(),
            issue: self.issue.as_deref(),
            limit: self.limit,
            summary: self.summary.as_deref(),
            branch: self.branch.as_deref(),
            session: self.session.as_deref(),
        }
    }
}
