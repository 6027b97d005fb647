//! What no client sends. Never a panic, and never a tool that runs because of it.

use estop_wire::hooks::{self, HookAnswer, HookClient, HookEvent, HookOut, PAYLOAD_BYTES_MAX};
use proptest::prelude::*;
use serde_json::Value;

use crate::payloads::samples;

/// Whether this answer keeps the tool from running, by the client's own rules as measured (docs/hooks.md).
pub(crate) fn refuses(client: HookClient, answer: &HookAnswer) -> bool {
    let said: Value = serde_json::from_str(&answer.stdout).unwrap_or_default();
    match client {
        HookClient::ClaudeCode | HookClient::Codex | HookClient::Qwen => {
            let decision = &said["hookSpecificOutput"];
            let reason = decision["permissionDecisionReason"].as_str().unwrap_or_default();
            answer.exit_code == 2
                && decision["permissionDecision"] == "deny"
                && !reason.is_empty()
                && !answer.stderr.is_empty()
        }
        HookClient::GeminiCli => answer.exit_code == 2 && said["decision"] == "deny",
        HookClient::Copilot => {
            let nested = &said["hookSpecificOutput"]["permissionDecision"];
            answer.exit_code == 2 && (said["permissionDecision"] == "deny" || nested == "deny")
        }
        // It reads nothing but the JSON.
        HookClient::Cline => said["cancel"] == true,
        HookClient::Cursor => said["permission"] == "deny",
        HookClient::Opencode | HookClient::OpenClaw | HookClient::Generic => said["permission"] == "deny",
    }
}

/// The name of the event before a tool, and of the one after it.
fn tool_events(client: HookClient) -> (&'static str, &'static str) {
    let find = |wanted| client.events().iter().find(|(_, event)| *event == wanted).map(|(name, _)| *name);
    (
        find(HookEvent::ToolRequested).expect("every client asks before a tool"),
        find(HookEvent::ToolFinished).expect("every client tells after a tool"),
    )
}

/// Reads a payload that is no good before a tool and after one.
fn check_refused(what: &str, payload: &[u8]) {
    for client in HookClient::ALL {
        let (before, after) = tool_events(client);
        for event in [Some(before), None] {
            let error = hooks::read(client, event, payload).expect_err(what);
            assert!(error.is_before_tool(), "{client:?} {what}");
            assert!(refuses(client, &hooks::refuse_unread(client, &error)), "{client:?} {what}: {error}");
        }
        let error = hooks::read(client, Some(after), payload).expect_err(what);
        assert!(!error.is_before_tool(), "{client:?} {what}");
        let answer = hooks::refuse_unread(client, &error);
        assert_eq!(answer.exit_code, 0, "{client:?} {what}: nothing is refused after a tool");
        assert!(!answer.stdout.contains("\"cancel\""), "{client:?} {what}");
    }
}

#[test]
fn tl_1_a_payload_that_was_not_taken_is_refused_before_a_tool_with_its_reason() {
    for client in HookClient::ALL {
        let (before, after) = tool_events(client);
        let answer = |event| hooks::refuse_unread(client, &hooks::lost(client, event, "it is too large."));
        for event in [Some(before), None] {
            let refused = answer(event);
            assert!(refuses(client, &refused), "{client:?} {event:?}");
            assert!(format!("{refused:?}").contains("it is too large"), "{client:?}: {refused:?}");
        }
        assert_eq!(answer(Some(after)).exit_code, 0, "{client:?}: nothing is refused after a tool");
    }
}

#[test]
fn tl_1_an_unreadable_payload_before_a_tool_is_a_refusal_in_every_contract() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_inside = format!(r#"{{"tool_input":{}}}"#, r#"{"a":"#.repeat(1000));
    let cases: &[(&str, &[u8])] = &[
        ("nothing", b""),
        ("white space", b" \n"),
        ("binary", b"\x00\xff\xfe\x80PK\x03\x04"),
        ("not JSON", b"tool_name: Bash"),
        ("cut off", br#"{"session_id":"s","tool_name":"Bash","tool_input":{"comm"#),
        ("a list", b"[]"),
        ("a text", b"\"PreToolUse\""),
        ("null", b"null"),
        ("an empty object", b"{}"),
        ("two documents", b"{}{}"),
        ("a byte order mark", b"\xef\xbb\xbf{}"),
        ("deep", deep.as_bytes()),
        ("deep inside", deep_inside.as_bytes()),
        ("not UTF-8 inside", b"{\"tool_name\":\"\xff\"}"),
    ];
    for (what, payload) in cases {
        check_refused(what, payload);
    }
}

#[test]
fn tl_1_a_payload_beyond_all_bounds_is_a_refusal() {
    let huge = vec![b' '; PAYLOAD_BYTES_MAX + 1];
    for client in HookClient::ALL {
        let error = hooks::read(client, Some(tool_events(client).0), &huge).expect_err("too large");
        assert!(refuses(client, &hooks::refuse_unread(client, &error)), "{client:?}");
    }
}

#[test]
fn tl_1_a_large_payload_is_read() {
    let text = "x".repeat(4 * 1024 * 1024);
    let payload = serde_json::json!({"session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"},
        "tool_response": {"stdout": text}});
    let hook = hooks::read(HookClient::ClaudeCode, Some("PostToolUse"), payload.to_string().as_bytes());
    assert!(hook.expect("large, but good").result.is_some_and(|result| result.text.len() > text.len()));
}

#[test]
fn tl_1_what_decides_must_be_there_once_and_of_its_type() {
    let bad = [
        (r#"{"session_id":7,"tool_name":"Bash","tool_input":{}}"#, "a session that is a number"),
        (r#"{"session_id":"s","tool_name":["Bash"],"tool_input":{}}"#, "a tool that is a list"),
        (r#"{"session_id":"s","tool_name":"","tool_input":{}}"#, "a tool without a name"),
        (r#"{"session_id":"s","tool_input":{}}"#, "no tool"),
        (r#"{"session_id":"s","tool_name":"Bash","tool_name":"Read"}"#, "two tools"),
        (r#"{"session_id":"s","tool_name":"Bash","Tool_Name":"Read"}"#, "two tools, but for their case"),
        (
            r#"{"session_id":"s","tool_name":"Bash","tool_input":{"command":"ls","command":"rm"}}"#,
            "two commands",
        ),
        (r#"{"session_id":"s","tool_name":"Bash","tool_input":{},"extra":1,"extra":2}"#, "a key twice"),
        (r#"{"session_id":"s","tool_name":"\ud800","tool_input":{}}"#, "half a character"),
    ];
    for client in [HookClient::ClaudeCode, HookClient::Codex, HookClient::GeminiCli, HookClient::Qwen] {
        for (payload, what) in bad {
            let (before, _) = tool_events(client);
            let error = hooks::read(client, Some(before), payload.as_bytes()).expect_err(what);
            assert!(refuses(client, &hooks::refuse_unread(client, &error)), "{client:?} {what}");
        }
    }
}

#[test]
fn tl_1_what_decides_nothing_may_change_its_type() {
    let payload = br#"{"session_id":"s","tool_name":"Bash","tool_input":{},"model":{"id":"m"},"cwd":7,"transcript_path":null,"agent_id":[],"prompt":false}"#;
    let hook = hooks::read(HookClient::Codex, Some("PreToolUse"), payload).expect("nothing depends on these");
    assert_eq!((hook.model, hook.cwd, hook.prompt), (None, None, None));
}

#[test]
fn tl_1_a_payload_of_another_event_than_the_command_line_says_is_a_refusal() {
    let payload = br#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}"#;
    for event in ["PostToolUse", "Stop", "PreTooluse", ""] {
        let error = hooks::read(HookClient::ClaudeCode, Some(event), payload).expect_err(event);
        assert!(
            refuses(HookClient::ClaudeCode, &hooks::refuse_unread(HookClient::ClaudeCode, &error)),
            "{event}"
        );
    }
    // An event of Copilot's that we do not know, in a payload that names none.
    let error =
        hooks::read(HookClient::Copilot, Some("preToolUSE"), br#"{"sessionId":"s"}"#).expect_err("unknown");
    assert!(error.is_before_tool());
}

#[test]
fn tl_1_events_we_have_no_use_for_are_read_and_answered_with_nothing() {
    let payload = br#"{"session_id":"s","hook_event_name":"PreModelSwitch"}"#;
    let hook =
        hooks::read(HookClient::ClaudeCode, Some("PreModelSwitch"), payload).expect("Claude Code knows it");
    assert_eq!(hook.event, HookEvent::Other);
    assert_eq!(hooks::write(&hook, &HookOut::deny("no")), HookAnswer::default());
}

#[test]
fn tl_1_no_text_of_ours_breaks_an_answer() {
    let texts = ["", " \n", "\"}]{", "\u{0}\u{1b}[31m", "ä\u{2028}😀", &"long ".repeat(100_000)];
    for client in HookClient::ALL {
        for text in texts {
            let mut out = HookOut::deny(text);
            out.context = Some(text.to_owned());
            for sample in samples(client) {
                let stdin = sample.stdin.get().as_bytes();
                let hook = hooks::read(client, Some(&sample.event), stdin).expect("a real payload");
                let answer = hooks::write(&hook, &out);
                assert!(answer.stdout.len() < 100_000, "{client:?}");
                assert!(answer.stdout.is_empty() || serde_json::from_str::<Value>(&answer.stdout).is_ok());
                if hook.event == HookEvent::ToolRequested {
                    assert!(refuses(client, &answer), "{client:?} {}: {answer:?}", sample.event);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A real payload with some bytes changed is read or refused, and never let through because it was not read.
    #[test]
    fn tl_1_a_damaged_payload_is_read_or_refused(
        which in 0usize..1000,
        changes in prop::collection::vec((0usize..100_000, any::<u8>()), 1..6),
        cut in prop::option::of(0usize..100_000),
    ) {
        let client = HookClient::ALL[which % HookClient::ALL.len()];
        let samples = samples(client);
        let sample = &samples[which / HookClient::ALL.len() % samples.len()];
        let mut bytes = sample.stdin.get().as_bytes().to_vec();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut % bytes.len());
        }
        let known = client.events().iter().find(|(name, _)| *name == sample.event).map(|(_, event)| *event);
        match hooks::read(client, Some(&sample.event), &bytes) {
            Ok(hook) if hook.event == HookEvent::ToolRequested => {
                prop_assert!(hook.tool.is_some());
                prop_assert!(refuses(client, &hooks::write(&hook, &HookOut::deny("no"))));
            }
            Ok(_) => prop_assert_ne!(known, Some(HookEvent::ToolRequested)),
            Err(error) => {
                let refused = refuses(client, &hooks::refuse_unread(client, &error));
                prop_assert!(refused || known != Some(HookEvent::ToolRequested));
            }
        }
    }

    #[test]
    fn tl_1_no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0usize..10) {
        let client = HookClient::ALL[which];
        if let Err(error) = hooks::read(client, None, &bytes) {
            prop_assert!(refuses(client, &hooks::refuse_unread(client, &error)));
        }
    }
}
