//! What each client says, read.

use std::fs;
use std::path::Path;

use estop_core::ended::Ended;
use estop_core::fingerprint::signature;
use estop_core::ids::CallId;
use estop_core::run::test_command::TestRunners;
use estop_wire::hooks::{self, CallNumbers, Commands, HookClient, HookEvent, HookFingerprint, HookIn};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One recorded payload.
#[derive(Deserialize)]
pub(crate) struct Sample {
    pub(crate) event: String,
    pub(crate) stdin: Box<RawValue>,
}

pub(crate) fn samples(client: HookClient) -> Vec<Sample> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/hooks/{}.json", client.name()));
    serde_json::from_str(&fs::read_to_string(&file).expect("every client has samples"))
        .expect("samples are JSON")
}

/// All that was recorded of an event, read.
fn of(client: HookClient, event: &str) -> Vec<HookIn> {
    let read =
        |s: &Sample| hooks::read(client, Some(event), s.stdin.get().as_bytes()).expect("a real payload");
    samples(client).iter().filter(|s| s.event == event).map(read).collect()
}

fn first(client: HookClient, event: &str) -> HookIn {
    of(client, event).into_iter().next().expect("it was recorded")
}

fn print(hook: &HookIn) -> HookFingerprint {
    hook.print(&TestRunners::default())
}

#[test]
fn tl_1_every_recorded_payload_is_read() {
    for client in HookClient::ALL {
        let samples = samples(client);
        assert!(samples.len() >= 4, "{client:?} has few samples");
        for Sample { event, stdin } in samples {
            let hook = hooks::read(client, Some(&event), stdin.get().as_bytes()).expect("a real payload");
            let known = client.events().iter().find(|(name, _)| *name == event).map(|(_, event)| *event);
            // Qwen Code's second, empty prompt is nobody's turn.
            if hook.event != HookEvent::Other {
                assert_eq!(Some(hook.event), known, "{client:?} {event}");
            }
            assert!(!hook.session.is_empty(), "{client:?} {event} has no session");
            let is_tool = matches!(hook.event, HookEvent::ToolRequested | HookEvent::ToolFinished);
            assert_eq!(hook.tool.is_some(), is_tool, "{client:?} {event}");
            assert_eq!(hook.result.is_some(), hook.event == HookEvent::ToolFinished, "{client:?} {event}");
        }
    }
}

#[test]
fn tl_1_the_event_is_also_known_from_the_payload_where_it_is_named() {
    let named = [
        (HookClient::ClaudeCode, "PreToolUse"),
        (HookClient::Codex, "PreToolUse"),
        (HookClient::GeminiCli, "BeforeTool"),
        (HookClient::Qwen, "PreToolUse"),
        (HookClient::Cline, "PreToolUse"),
        (HookClient::Copilot, "PreToolUse"),
        (HookClient::Cursor, "preToolUse"),
    ];
    for (client, event) in named {
        let sample = samples(client).into_iter().find(|s| s.event == event).expect("it was recorded");
        let hook =
            hooks::read(client, None, sample.stdin.get().as_bytes()).expect("it says which event it is");
        assert_eq!((hook.event, hook.event_name.as_str()), (HookEvent::ToolRequested, event));
    }
}

#[test]
fn tl_1_a_tool_call_is_read_with_its_command() {
    let cases = [
        (HookClient::ClaudeCode, "PreToolUse", "Bash"),
        (HookClient::Codex, "PreToolUse", "Bash"),
        (HookClient::GeminiCli, "BeforeTool", "run_shell_command"),
        (HookClient::Copilot, "preToolUse", "bash"),
        (HookClient::Copilot, "PreToolUse", "Bash"),
        (HookClient::Cline, "PreToolUse", "run_commands"),
        (HookClient::Qwen, "PreToolUse", "run_shell_command"),
        (HookClient::Cursor, "preToolUse", "Shell"),
        (HookClient::Cursor, "beforeShellExecution", "Shell"),
        (HookClient::Opencode, "pre-tool-use", "bash"),
        (HookClient::OpenClaw, "pre-tool-use", "exec"),
        (HookClient::Generic, "pre-tool-use", "terminal"),
    ];
    for (client, event, tool) in cases {
        let hook = first(client, event);
        assert_eq!(hook.tool.as_ref().map(|tool| tool.name.as_str()), Some(tool), "{client:?}");
        let Commands::Lines(lines) = hook.commands() else { unreachable!("{client:?}: {tool} is a shell") };
        assert_eq!(lines.len(), 1, "{client:?}");
        assert!(lines[0].starts_with("echo "), "{client:?}: {lines:?}");
    }
}

/// CB-4 counts test runs that fail; each client tells it in another way, or does not.
#[test]
fn tl_1_how_a_tool_ended_is_read_as_each_client_tells_it() {
    let cases = [
        (HookClient::ClaudeCode, "PostToolUse", vec![Ended::Ok]),
        (HookClient::ClaudeCode, "PostToolUseFailure", vec![Ended::Failed]),
        // It does not say: the second command exited with 3.
        (HookClient::Codex, "PostToolUse", vec![Ended::Unknown, Ended::Unknown]),
        (HookClient::GeminiCli, "AfterTool", vec![Ended::Ok, Ended::Failed]),
        // Its `resultType` is "success" both times.
        (HookClient::Copilot, "postToolUse", vec![Ended::Ok, Ended::Failed]),
        // Its `success` is true both times.
        (HookClient::Cline, "PostToolUse", vec![Ended::Ok, Ended::Failed]),
        (HookClient::Qwen, "PostToolUseFailure", vec![Ended::Failed]),
        (HookClient::Cursor, "postToolUseFailure", vec![Ended::Failed]),
        (HookClient::Opencode, "post-tool-use", vec![Ended::Failed]),
        (HookClient::OpenClaw, "post-tool-use", vec![Ended::Failed]),
        (HookClient::Generic, "post-tool-use", vec![Ended::Ok, Ended::Failed, Ended::Unknown]),
    ];
    for (client, event, expected) in cases {
        let ended: Vec<Ended> = of(client, event)
            .iter()
            .filter_map(|hook| hook.result.as_ref())
            .map(|result| result.ended)
            .collect();
        assert_eq!(ended, expected, "{client:?} {event}");
    }
}

#[test]
fn tl_1_what_gemini_adds_to_each_result_does_not_make_it_another_result() {
    let result = |pid: u32| {
        let text =
            format!("<untrusted_context>\nOutput: same\nProcess Group PGID: {pid}\n</untrusted_context>");
        let payload = serde_json::json!({
            "session_id": "s", "hook_event_name": "AfterTool", "tool_name": "run_shell_command",
            "tool_input": {"command": "make"}, "tool_response": {"llmContent": text, "returnDisplay": "same"},
        });
        let hook = hooks::read(HookClient::GeminiCli, None, payload.to_string().as_bytes()).expect("good");
        print(&hook).tool_finished(CallId(1)).expect("a result").result
    };
    assert_eq!(result(1886), result(20_011));
}

#[test]
fn tl_1_a_prompt_is_a_turn_only_if_somebody_said_something() {
    let prompts =
        |client, event: &str| -> Vec<HookEvent> { of(client, event).iter().map(|hook| hook.event).collect() };
    assert_eq!(prompts(HookClient::ClaudeCode, "UserPromptSubmit"), [HookEvent::PromptSubmitted]);
    // The second one comes after a tool's result, with an empty prompt.
    assert_eq!(prompts(HookClient::Qwen, "UserPromptSubmit"), [HookEvent::PromptSubmitted, HookEvent::Other]);
    assert_eq!(first(HookClient::GeminiCli, "BeforeAgent").prompt.as_deref(), Some("run the tool"));
}

#[test]
fn tl_1_the_last_words_of_a_turn_are_kept_for_the_summary() {
    for (client, event) in
        [(HookClient::ClaudeCode, "Stop"), (HookClient::Codex, "Stop"), (HookClient::Cline, "TaskComplete")]
    {
        assert_eq!(first(client, event).last_message.as_deref().map(str::trim), Some("hello from mock"));
    }
}

#[test]
fn tl_1_a_test_run_is_seen_wherever_a_client_keeps_its_command() {
    let runs_tests = |client, event: &str, payload: serde_json::Value| {
        let hook = hooks::read(client, Some(event), payload.to_string().as_bytes()).expect("a good payload");
        print(&hook).tool_requested(CallId(1)).expect("a tool").test_run
    };
    let claude = |tool: &str, args| {
        runs_tests(
            HookClient::ClaudeCode,
            "PreToolUse",
            serde_json::json!({"session_id": "s", "tool_name": tool, "tool_input": args}),
        )
    };
    assert!(claude("Bash", serde_json::json!({"command": "cd web && npm test"})));
    assert!(!claude("Bash", serde_json::json!({"command": "pip install pytest"})));
    assert!(!claude("Write", serde_json::json!({"command": "npm test"})));
    assert!(!claude("Bash", serde_json::json!({"command": 7})));
    let codex = serde_json::json!({"session_id": "s", "tool_name": "shell",
        "tool_input": {"command": ["bash", "-lc", "cargo test"]}});
    assert!(runs_tests(HookClient::Codex, "PreToolUse", codex));
    let cline = |commands: serde_json::Value| {
        let payload = serde_json::json!({"taskId": "t", "hookName": "tool_call",
            "tool_call": {"id": "c", "name": "run_commands", "input": {"commands": commands}}});
        runs_tests(HookClient::Cline, "PreToolUse", payload)
    };
    assert!(cline(serde_json::json!(["ls", "go test ./..."])));
    assert!(!cline(serde_json::json!(["ls", "go build ./..."])));
    let copilot = serde_json::json!({"sessionId": "s", "toolName": "powershell", "toolArgs": {"command": "dotnet test"}});
    assert!(runs_tests(HookClient::Copilot, "preToolUse", copilot));
    let cursor = serde_json::json!({"conversation_id": "s", "command": "pytest -q"});
    assert!(runs_tests(HookClient::Cursor, "beforeShellExecution", cursor));
}

/// The same call has the same signature by hook and by the model's answer, whatever the order of keys.
#[test]
fn tl_1_a_call_has_the_signature_the_core_gives_it() {
    let hook = first(HookClient::Copilot, "preToolUse");
    let tool = hook.tool.as_ref().expect("a tool");
    let told = print(&hook).tool_requested(CallId(1)).expect("a tool");
    assert_eq!(told.action, signature::action(&tool.name, &tool.args));
}

#[test]
fn tl_1_calls_without_an_id_are_told_apart_and_matched_with_their_ends() {
    let mut numbers = CallNumbers::default();
    let (before, after) = (
        print(&first(HookClient::GeminiCli, "BeforeTool")),
        print(&first(HookClient::GeminiCli, "AfterTool")),
    );
    let (one, two) = (numbers.requested(&before), numbers.requested(&before));
    assert_ne!(one, two, "a repeated call counts again");
    assert_eq!(numbers.finished(&after), Some(one), "the oldest ends first");
    assert_eq!(numbers.finished(&after), Some(two));
    assert_eq!(numbers.finished(&after), None, "nothing is open");
    let three = numbers.requested(&before);
    numbers.refused(three);
    assert_eq!(numbers.finished(&after), None, "what was refused never ends");
    assert!(three.0 < 1 << 53, "every JSON reader keeps it");
}

#[test]
fn tl_1_calls_with_an_id_keep_their_number_across_restarts() {
    let (before, after) = (
        print(&first(HookClient::ClaudeCode, "PreToolUse")),
        print(&first(HookClient::ClaudeCode, "PostToolUse")),
    );
    let asked = CallNumbers::new(1).requested(&before);
    assert_eq!(CallNumbers::new(2).requested(&before), asked, "asked twice, it is one call");
    assert_eq!(CallNumbers::new(3).finished(&after), Some(asked));
}

#[test]
fn tl_1_open_calls_without_an_id_are_bounded() {
    let mut numbers = CallNumbers::default();
    let (before, after) = (
        print(&first(HookClient::GeminiCli, "BeforeTool")),
        print(&first(HookClient::GeminiCli, "AfterTool")),
    );
    for _ in 0..1000 {
        numbers.requested(&before);
    }
    let ended = std::iter::from_fn(|| numbers.finished(&after)).count();
    assert_eq!(ended, 64);
}
