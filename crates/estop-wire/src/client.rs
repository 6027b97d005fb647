//! Which program made a request, as far as that changes how it must be refused (`docs/clients.md`).
//!
//! Most programs need no name: 400 on OpenAI's paths and 403 on the others stops them at once. Only those are named
//! here that go on in spite of it, and only if their headers tell them from others. CrewAI, for one, tries three times
//! after any error, and cannot be told from the SDK it uses.

/// A program that needs another refusal than its protocol's usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    /// The usual refusal is right.
    #[default]
    Usual,
    /// Retries a 400; a 403 stops it on every path.
    Goose,
    /// Stops at a 403 on Anthropic's paths, but shows its own sentence instead of ours; a 400 it shows.
    Copilot,
    /// LiteLLM outside OpenAI's paths, where it does not use OpenAI's SDK. On top of it aider retries a 403 for a
    /// minute; a 400 stops both on every path.
    LiteLlm,
}

/// Who asks. `header` gives the value of a header by its lower-case name.
///
/// ```
/// use estop_wire::client::{Client, recognise};
///
/// let header = |name: &str| (name == "agent-session-id").then_some("20261115_1");
/// assert_eq!(recognise(header), Client::Goose);
/// ```
pub fn recognise<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Client {
    match header("user-agent") {
        Some(agent) if has_prefix(agent, "litellm/") => Client::LiteLlm,
        Some(_) if header("x-initiator").is_some() => Client::Copilot,
        Some(_) => Client::Usual,
        // The only one of thirty that does not say who it is, and names its session.
        None if header("agent-session-id").is_some() => Client::Goose,
        None => Client::Usual,
    }
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &'static str)], expected: Client) {
        let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        assert_eq!(recognise(header), expected, "{headers:?}");
    }

    #[test]
    fn an_1_clients_that_need_another_refusal_are_recognised() {
        check(&[("agent-session-id", "20261115_3")], Client::Goose);
        check(&[("agent-session-id", "20261115_3"), ("user-agent", "my-agent/1")], Client::Usual);
        check(&[("user-agent", "litellm/1.81.10")], Client::LiteLlm);
        check(&[("user-agent", "LiteLLM/2")], Client::LiteLlm);
        check(&[("user-agent", "litellm")], Client::Usual);
        check(&[("user-agent", "Anthropic/JS 0.94.0"), ("x-initiator", "agent")], Client::Copilot);
        check(&[("user-agent", "OpenAI/Python 3.49.0")], Client::Usual);
        check(&[("user-agent", "claude-cli/2.1.325 (external, cli)")], Client::Usual);
        check(&[("user-agent", "codex_exec/0.166.0")], Client::Usual);
        check(&[("user-agent", "é")], Client::Usual);
        check(&[], Client::Usual);
    }
}
