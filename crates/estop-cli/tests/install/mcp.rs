//! MCP servers in settings files, behind the gate and back (TL-3).
#![expect(clippy::panic, reason = "a test fails by panicking")]

use estop_cli::install::settings::{McpEntry, McpGate, McpOutcome, Removed, Scope, mcp_locations};
use estop_wire::hooks::HookClient;

fn gate(words: &[String]) -> McpGate<'_> {
    McpGate {
        words,
        only: None,
        url: &|name, url| {
            (name == "known" && url == "https://x/mcp").then(|| "http://gate/mcp/known".to_owned())
        },
        behind: &|_, url| (url == "http://gate/mcp/known").then(|| "https://x/mcp".to_owned()),
    }
}

fn words() -> Vec<String> {
    ["/usr/bin/estop", "mcp", "--agent", "a1"].map(str::to_owned).to_vec()
}

/// There, there again, and back.
fn check(client: HookClient, before: &str, after: &str) -> Vec<(String, McpOutcome)> {
    let words = words();
    let gate = gate(&words);
    let places = mcp_locations(client, Scope::User).expect("it has a place");
    let [place] = places.as_slice() else { panic!("one file") };
    let (added, entries) = place.add(before, &gate).expect("good settings");
    assert_eq!(added, after);
    let (again, entries_again) = place.add(&added, &gate).expect("good settings");
    assert_eq!(again, added, "twice changes nothing");
    assert!(entries_again.iter().all(|one| one.outcome != McpOutcome::Gated), "{entries_again:?}");
    let back = place.remove(&added, &gate).expect("good settings");
    let expected = if before == after { Removed::Unchanged } else { Removed::Text(before.to_owned()) };
    assert_eq!(back, expected, "back to the last space");
    entries.into_iter().map(|McpEntry { name, outcome }| (name, outcome)).collect()
}

#[test]
fn tl_3_commands_go_behind_the_gate_and_come_back_exactly() {
    let before = r#"{
  // mine
  "mcpServers": {
    "files": { "command": "npx", "args": [
      "-y", "server-files" // which
    ], "env": {"A": "1"} },
    "bare": {"command":"/opt/a b"},
    "empty": {"command": "x", "args": [ ]},
    "known": {"type": "http", "url": "https://x/mcp"},
    "other": {"type": "http", "url": "https://y/mcp"}
  },
  "projects": {"/p": {"mcpServers": {"deep": {"command": "d", "args": ["\u0061"]}}}}
}
"#;
    let after = r#"{
  // mine
  "mcpServers": {
    "files": { "command": "/usr/bin/estop", "args": ["mcp", "--agent", "a1", "--server", "files", "--installed", "--", "npx",
      "-y", "server-files" // which
    ], "env": {"A": "1"} },
    "bare": {"command":"/usr/bin/estop", "args": ["mcp", "--agent", "a1", "--server", "bare", "--installed", "--", "/opt/a b"]},
    "empty": {"command": "/usr/bin/estop", "args": ["mcp", "--agent", "a1", "--server", "empty", "--installed", "--", "x" ]},
    "known": {"type": "http", "url": "http://gate/mcp/known"},
    "other": {"type": "http", "url": "https://y/mcp"}
  },
  "projects": {"/p": {"mcpServers": {"deep": {"command": "/usr/bin/estop", "args": ["mcp", "--agent", "a1", "--server", "deep", "--installed", "--", "d","\u0061"]}}}}
}
"#;
    // An empty list on the line of its command looks like one that we made: the copy beside the file has it.
    let (before, after) = (
        before.replace("\"args\": [ ]", "\"args\":  [ ]"),
        after.replace(
            "\"empty\": {\"command\": \"/usr/bin/estop\", \"args\": [",
            "\"empty\": {\"command\": \"/usr/bin/estop\", \"args\":  [",
        ),
    );
    let all = check(HookClient::ClaudeCode, &before, &after);
    let other = McpOutcome::UnknownUrl("https://y/mcp".to_owned());
    assert!(all.contains(&("other".to_owned(), other)), "{all:?}");
    assert_eq!(all.iter().filter(|(_, outcome)| *outcome == McpOutcome::Gated).count(), 5);
}

#[test]
fn tl_3_lists_and_toml_too() {
    check(
        HookClient::Opencode,
        r#"{"mcp": {"a": {"type": "local", "command": ["npx", "-y", "b"]}}}"#,
        r#"{"mcp": {"a": {"type": "local", "command": ["/usr/bin/estop", "mcp", "--agent", "a1", "--server", "a", "--installed", "--","npx", "-y", "b"]}}}"#,
    );
    check(
        HookClient::Codex,
        "model = \"m\"\n\n[mcp_servers.a] # mine\ncommand = \"npx\" # how\nargs = [\"-y\", \"b\"]\n\n[mcp_servers.c]\ncommand = \"c\"\n\n[mcp_servers.known]\nurl = \"https://x/mcp\"\n",
        "model = \"m\"\n\n[mcp_servers.a] # mine\ncommand = \"/usr/bin/estop\" # how\nargs = [\"mcp\", \"--agent\", \"a1\", \"--server\", \"a\", \"--installed\", \"--\", \"npx\",\"-y\", \"b\"]\n\n[mcp_servers.c]\ncommand = \"/usr/bin/estop\"\nargs = [\"mcp\", \"--agent\", \"a1\", \"--server\", \"c\", \"--installed\", \"--\", \"c\"]\n\n[mcp_servers.known]\nurl = \"http://gate/mcp/known\"\n",
    );
    check(HookClient::Cursor, "{}", "{}");
}

#[test]
fn tl_3_arguments_that_are_no_list_leave_the_command_as_it_is() {
    let words = words();
    let gate = gate(&words);
    let places = mcp_locations(HookClient::Cursor, Scope::User).expect("it has a place");
    for args in [r#""-y""#, "{}", "7", "true"] {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "npx", "args": {args}}}}}}}"#);
        let (added, all) = places[0].add(&text, &gate).expect("good settings");
        assert_eq!(added, text);
        assert_eq!(all[0].outcome, McpOutcome::Unreadable);
    }
    let text = r#"{"mcpServers": {"a": {"args": null, "command": "npx"}}}"#;
    let (added, all) = places[0].add(text, &gate).expect("good settings");
    assert_eq!(all[0].outcome, McpOutcome::Gated);
    assert!(added.contains(r#""--installed", "--", "npx"], "command": "/usr/bin/estop""#), "{added}");
    let Ok(Removed::Text(back)) = places[0].remove(&added, &gate) else { panic!("it was ours") };
    assert_eq!(back, text.replace("null", "[]"));
}

#[test]
fn tl_3_one_server_alone_and_no_place() {
    let words = words();
    let gate = McpGate { only: Some("b"), ..gate(&words) };
    let places = mcp_locations(HookClient::Cursor, Scope::User).expect("it has a place");
    let text = r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#;
    let (added, all) = places[0].add(text, &gate).expect("good settings");
    assert!(added.contains(r#""a": {"command": "a"}"#), "{added}");
    assert_eq!(all.len(), 1);
    assert!(mcp_locations(HookClient::Generic, Scope::User).is_err());
    assert!(places[0].add("{", &gate).is_err());
}
