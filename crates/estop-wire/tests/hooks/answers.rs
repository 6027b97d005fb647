//! What we answer, in each client's contract.
//!
//! `tests/hooks/answers.txt` has every answer to every kind of event. `ESTOP_BLESS=1 cargo test -p estop-wire --test
//! hooks answers` writes what is answered today; hold the difference against docs/hooks.md before you keep it.

use std::fmt::Write as _;
use std::path::Path;

use estop_wire::hooks::{self, HookAnswer, HookClient, HookEvent, HookIn, HookOut};
use serde_json::{Value, json};

use crate::hostile::refuses;

const REASON: &str = "Circuit breaker: max tool calls reached (200/200). Summarise and stop.";
const WARNING: &str = "⚠️ Approaching limit: max tool calls at 160/200 (80%). Plan to wrap up soon.";

fn outs() -> [(&'static str, HookOut); 5] {
    let mut both = HookOut::deny(REASON);
    both.context = Some(WARNING.to_owned());
    [
        ("allow", HookOut::allow()),
        ("warn", HookOut::warn(WARNING)),
        ("deny", HookOut::deny(REASON)),
        ("deny+warn", both),
        ("end", HookOut::end(REASON)),
    ]
}

fn answer(client: HookClient, event: HookEvent, name: &str, out: &HookOut) -> HookAnswer {
    hooks::write(&HookIn::empty(client, event, name), out)
}

#[test]
fn tl_1_every_answer_is_the_one_its_client_was_seen_to_obey() {
    let mut all = String::new();
    for client in HookClient::ALL {
        for (name, event) in client.events() {
            for (what, out) in outs() {
                let HookAnswer { stdout, stderr, exit_code } = answer(client, *event, name, &out);
                let stderr = if stderr.is_empty() { "" } else { " +stderr" };
                writeln!(all, "{} {name} {what}: {exit_code}{stderr} {stdout}", client.name())
                    .expect("a string takes all");
            }
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hooks/answers.txt");
    if std::env::var_os("ESTOP_BLESS").is_some() {
        std::fs::write(&file, &all).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(&file).expect("the file is there");
    for (line, expected) in all.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(all.lines().count(), expected.lines().count());
}

#[test]
fn tl_1_a_refusal_before_a_tool_refuses_in_every_contract() {
    for client in HookClient::ALL {
        for (name, _) in client.events().iter().filter(|(_, event)| *event == HookEvent::ToolRequested) {
            for (what, out) in outs() {
                let given = answer(client, HookEvent::ToolRequested, name, &out);
                let is_refusal = !matches!(what, "allow" | "warn");
                assert_eq!(refuses(client, &given), is_refusal, "{client:?} {name} {what}: {given:?}");
                if is_refusal {
                    assert!(given.stdout.contains("max tool calls"), "{client:?}: the model is told why");
                }
            }
        }
    }
}

/// "allow" in these contracts also answers the question that the person at the keyboard should be asked.
#[test]
fn tl_1_no_objection_is_not_a_permission() {
    for client in HookClient::ALL {
        for (name, event) in client.events() {
            for (what, out) in outs().into_iter().take(2) {
                let given = answer(client, *event, name, &out);
                assert_eq!(given.exit_code, 0, "{client:?} {name} {what}");
                let is_own_word = matches!(
                    client,
                    HookClient::Cursor | HookClient::Opencode | HookClient::OpenClaw | HookClient::Generic
                );
                assert!(
                    is_own_word || !given.stdout.contains("allow"),
                    "{client:?} {name} {what}: {given:?}"
                );
            }
        }
    }
}

/// Measured: an unknown key, an empty reason, `continue` or exit code 1 makes Codex run the tool.
#[test]
fn tl_1_codex_gets_no_key_it_does_not_know() {
    for (what, out) in outs() {
        let given = answer(HookClient::Codex, HookEvent::ToolRequested, "PreToolUse", &out);
        let said: Value = serde_json::from_str(&given.stdout).unwrap_or(json!({}));
        let keys = |value: &Value| -> Vec<String> {
            value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
        };
        match what {
            "allow" => assert_eq!(given, HookAnswer::default()),
            "warn" => {
                assert_eq!(keys(&said["hookSpecificOutput"]), ["additionalContext", "hookEventName"]);
            }
            _ => {
                assert_eq!(keys(&said), ["hookSpecificOutput"], "{what}");
                let inner = ["hookEventName", "permissionDecision", "permissionDecisionReason"];
                assert_eq!(keys(&said["hookSpecificOutput"]), inner, "{what}");
                assert_eq!(given.exit_code, 2);
            }
        }
    }
    let blank = answer(HookClient::Codex, HookEvent::ToolRequested, "PreToolUse", &HookOut::deny(" "));
    assert!(refuses(HookClient::Codex, &blank), "a reason that is not there is made up: {blank:?}");
}

/// Measured: `continue: false` alone lets the tool run once more.
#[test]
fn tl_1_claude_code_is_stopped_with_a_denial_beside() {
    let given = answer(HookClient::ClaudeCode, HookEvent::ToolRequested, "PreToolUse", &HookOut::end(REASON));
    let said: Value = serde_json::from_str(&given.stdout).expect("JSON");
    assert_eq!((&said["continue"], &said["stopReason"]), (&json!(false), &json!(REASON)));
    assert!(refuses(HookClient::ClaudeCode, &given));
}

/// In every contract a refusal at the end of a turn means "go on": the opposite of an emergency stop.
#[test]
fn tl_1_nothing_ever_keeps_an_agent_from_stopping() {
    for client in HookClient::ALL {
        let is_end = |event: HookEvent| {
            matches!(event, HookEvent::TurnEnded | HookEvent::SubagentEnded | HookEvent::SessionEnded)
        };
        for (name, event) in client.events().iter().filter(|(_, event)| is_end(*event)) {
            for (what, out) in outs() {
                let given = answer(client, *event, name, &out);
                assert_eq!((given.exit_code, given.stderr.as_str()), (0, ""), "{client:?} {name} {what}");
                assert!(!given.stdout.contains("block"), "{client:?} {name} {what}");
                assert!(!given.stdout.contains("followup"), "{client:?} {name} {what}");
            }
        }
    }
}

/// Measured: Gemini CLI and Qwen Code drop a warning before a tool, and pass it on after it.
#[test]
fn tl_1_it_is_known_where_a_warning_is_heard() {
    let hears = |client: HookClient, name: &str| {
        let (_, event) = client.events().iter().find(|(known, _)| *known == name).expect("it has it");
        HookIn::empty(client, *event, name).hears_context()
    };
    for (client, name) in [
        (HookClient::ClaudeCode, "PreToolUse"),
        (HookClient::Codex, "PreToolUse"),
        (HookClient::Copilot, "preToolUse"),
        (HookClient::Cline, "PreToolUse"),
        (HookClient::GeminiCli, "AfterTool"),
        (HookClient::Qwen, "PostToolUseFailure"),
        (HookClient::Cursor, "postToolUse"),
    ] {
        assert!(hears(client, name), "{client:?} {name}");
    }
    for (client, name) in [
        (HookClient::GeminiCli, "BeforeTool"),
        (HookClient::Qwen, "PreToolUse"),
        (HookClient::Cursor, "preToolUse"),
    ] {
        assert!(!hears(client, name), "{client:?} {name}");
    }
}

/// Exit code 1 means "the hook is broken", and then most clients run the tool.
#[test]
fn tl_1_exit_codes_are_0_or_2() {
    for client in HookClient::ALL {
        for (name, event) in client.events() {
            for (_, out) in outs() {
                let code = answer(client, *event, name, &out).exit_code;
                assert!(code == 0 || code == 2, "{client:?} {name}");
            }
        }
    }
}

/// A word to the person changes nothing in what the client does, and Gemini CLI and Qwen Code read plain text as "allow".
#[test]
fn tl_1_a_notice_is_neither_a_refusal_nor_a_permission() {
    for client in HookClient::ALL {
        for (name, event) in client.events() {
            let given = hooks::allow_and_tell(client, *event, name, "estop was not asked");
            assert_eq!(given.exit_code, 0, "{client:?} {name}");
            assert!(!refuses(client, &given), "{client:?} {name}: {given:?}");
            let is_said = format!("{}{}", given.stdout, given.stderr).contains("estop was not asked");
            let is_due = matches!(event, HookEvent::ToolRequested | HookEvent::PromptSubmitted);
            assert_eq!(is_said, is_due, "{client:?} {name}: {given:?}");
            let said: Value = serde_json::from_str(&given.stdout).unwrap_or_default();
            let plain = answer(client, *event, name, &HookOut::allow());
            let as_before: Value = serde_json::from_str(&plain.stdout).unwrap_or_default();
            for key in ["decision", "permission", "permissionDecision", "continue", "hookSpecificOutput"] {
                assert_eq!(said[key], as_before[key], "{client:?} {name}: {given:?}");
            }
            if matches!(client, HookClient::GeminiCli | HookClient::Qwen) {
                assert_eq!(given.stderr, "", "{client:?} {name}");
            }
        }
    }
}

#[test]
fn cb_2_a_warning_waits_where_a_plugin_has_no_place_for_it() {
    let hears = |client, event| HookIn::empty(client, event, "").hears_context();
    assert!(!hears(HookClient::Opencode, HookEvent::ToolRequested));
    assert!(hears(HookClient::Opencode, HookEvent::ToolFinished));
    assert!(!hears(HookClient::OpenClaw, HookEvent::ToolFinished));
    assert!(hears(HookClient::Generic, HookEvent::ToolRequested));
}
