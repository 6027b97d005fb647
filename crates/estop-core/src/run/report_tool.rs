//! Tools with which an agent reports (CB-6), whatever its client makes of their names.

use crate::fingerprint::arguments::{Given, first_of};

/// With these an agent says that it is done or cannot go on.
const REPORTS: [&str; 2] = ["report_complete", "report_blocked"];

/// Where reports keep what they say.
const SAID_IN: [&str; 6] = ["summary", "message", "reason", "details", "description", "text"];

/// Whether a call of this tool reports that the agent is done or blocked.
pub fn is_report(called: &str) -> bool {
    REPORTS.iter().any(|tool| is_tool(called, tool))
}

/// What an agent says in a report, from the call's arguments.
pub fn reported(called: &str, args: &str) -> Option<String> {
    if !is_report(called) {
        return None;
    }
    // Read once for each key until one holds a text: reports are small, and few.
    SAID_IN.into_iter().find_map(|key| match first_of(args, &[key]) {
        Ok(Some((_, Given::Text(text)))) => Some(text.into_owned()),
        Ok(Some((_, Given::Texts(_) | Given::Other)) | None) | Err(_) => None,
    })
}

/// Whether `called` is the tool `tool`, maybe behind the name of its MCP server: `mcp__squad__report_complete` (Claude
/// Code, Codex), `mcp_squad_report_complete` (Gemini CLI), `squad-report_complete` (Copilot).
fn is_tool(called: &str, tool: &str) -> bool {
    let Some(before) = called.strip_suffix(tool) else { return false };
    let server = |end: &str| before.strip_suffix(end).is_some_and(|server| !server.is_empty());
    let of_gemini = before.starts_with("mcp_") && server("_");
    before.is_empty() || of_gemini || ["__", "-", ".", ":", "/"].into_iter().any(server)
}

/// Whether `called` is the wrap-up tool `tool`. Only reports are known behind the name of a server: a tool of another
/// server that happens to end alike is another tool.
pub(crate) fn is_wrap_up_tool(called: &str, tool: &str) -> bool {
    called == tool || (REPORTS.contains(&tool) && is_tool(called, tool))
}

/// Whether a client calls by `called` what the gate of an MCP server calls `mcp__server__tool`.
pub(crate) fn is_same_tool(called: &str, at_gate: &str) -> bool {
    let of_server = at_gate.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    let (server, tool) = of_server.unwrap_or(("", at_gate));
    let of_opencode = || {
        called.strip_prefix(server).and_then(|rest| rest.strip_prefix('_')).is_some_and(|rest| rest == tool)
    };
    !tool.is_empty() && (is_tool(called, tool) || of_opencode())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_6_a_report_is_known_behind_the_name_of_its_server() {
        let reports = [
            "report_complete",
            "report_blocked",
            "mcp__squad__report_complete",
            "mcp_squad_report_blocked",
            "squad-report_complete",
            "squad.report_complete",
        ];
        for tool in reports {
            assert!(is_report(tool), "{tool}");
        }
        for tool in
            ["bash", "no_report_complete", "report_complete_all", "_report_complete", "", "Report_complete"]
        {
            assert!(!is_report(tool), "{tool}");
        }
    }

    #[test]
    fn cb_6_only_reports_are_known_behind_a_server() {
        assert!(is_wrap_up_tool("mcp__squad__report_blocked", "report_blocked"));
        assert!(is_wrap_up_tool("write", "write") && is_wrap_up_tool("mcp__x__write", "mcp__x__write"));
        for other in ["fs.write", "mcp__x__write", "x-write", "x/write"] {
            assert!(!is_wrap_up_tool(other, "write"), "{other}");
        }
    }

    #[test]
    fn cb_3_a_tool_is_the_same_under_each_client_s_name() {
        for called in ["mcp__db__query", "mcp_db_query", "db-query", "db_query", "query"] {
            assert!(is_same_tool(called, "mcp__db__query"), "{called}");
        }
        for called in ["bash", "mcp__db__query_all", "requery", "db_", ""] {
            assert!(!is_same_tool(called, "mcp__db__query"), "{called}");
        }
    }

    #[test]
    fn cb_6_a_report_says_it_in_its_arguments() {
        let args = r#"{"status": "x", "summary": "All but the parser."}"#;
        assert_eq!(reported("mcp__squad__report_blocked", args).as_deref(), Some("All but the parser."));
        assert_eq!(reported("report_complete", r#"{"summary": 3}"#), None);
        let second = r#"{"reason": "b", "summary": null, "message": "a"}"#;
        assert_eq!(reported("report_complete", second).as_deref(), Some("a"));
        assert_eq!(reported("report_complete", "done"), None);
        assert_eq!(reported("bash", args), None);
    }
}
