//! Hooks in and out of settings files.

use estop_cli::install::settings::{
    CodexTrust, Removed, Scope, SettingsError, Target, distrust_codex, survives_repository, switched_off,
    targets, trust_codex,
};
use estop_wire::hooks::HookClient;
use proptest::prelude::*;
use serde_json::Value;

fn estop() -> Vec<String> {
    vec!["/usr/local/bin/estop".to_owned()]
}

fn all(client: HookClient, scope: Scope) -> Vec<Target> {
    targets(client, scope, &estop()).expect("it has such a place")
}

fn only(client: HookClient) -> Target {
    let mut targets = all(client, Scope::User);
    assert_eq!(targets.len(), 1);
    targets.remove(0)
}

/// Clients whose hooks stand in a file with other things.
const SHARED: [HookClient; 5] =
    [HookClient::ClaudeCode, HookClient::Codex, HookClient::GeminiCli, HookClient::Qwen, HookClient::Cursor];

fn every_target() -> Vec<(HookClient, Scope, Target)> {
    let mut all = Vec::new();
    for client in HookClient::ALL {
        for scope in [Scope::User, Scope::Project, Scope::System] {
            let found = targets(client, scope, &estop()).unwrap_or_default();
            all.extend(found.into_iter().map(|target| (client, scope, target)));
        }
    }
    all
}

#[test]
fn tl_1_a_new_file_is_what_the_client_wants() {
    let text = only(HookClient::ClaudeCode).add(None).expect("a new file");
    let settings: Value = serde_json::from_str(&text).expect("plain JSON");
    let hook = &settings["hooks"]["PreToolUse"][0]["hooks"][0];
    assert_eq!(hook["command"], "/usr/local/bin/estop hook claude-code PreToolUse --installed");
    assert_eq!(
        (&hook["type"], &hook["onFailure"], &hook["timeout"]),
        (&"command".into(), &"block".into(), &60.into())
    );
    assert!(settings["hooks"]["Stop"][0]["hooks"][0].get("onFailure").is_none(), "nothing is refused there");
    let text = only(HookClient::GeminiCli).add(None).expect("a new file");
    let settings: Value = serde_json::from_str(&text).expect("plain JSON");
    assert_eq!(settings["hooks"]["BeforeTool"][0]["hooks"][0]["timeout"], 60_000, "milliseconds");
    let text = only(HookClient::Cursor).add(None).expect("a new file");
    let settings: Value = serde_json::from_str(&text).expect("plain JSON");
    assert_eq!(
        (&settings["version"], &settings["hooks"]["preToolUse"][0]["failClosed"]),
        (&1.into(), &true.into())
    );
    assert!(settings["hooks"].get("beforeShellExecution").is_none(), "a call would be counted twice");
    let text = only(HookClient::Copilot).add(None).expect("a new file");
    let settings: Value = serde_json::from_str(&text).expect("plain JSON");
    assert_eq!(
        settings["hooks"]["preToolUse"][0]["bash"],
        "/usr/local/bin/estop hook copilot preToolUse --installed"
    );
    assert!(settings["hooks"].get("PreToolUse").is_none(), "a call would be counted twice");
}

/// Measured: a key or type Codex does not know loses all hooks of the file, and tools run.
#[test]
fn tl_1_codex_gets_a_file_with_known_keys_only() {
    let text = only(HookClient::Codex).add(None).expect("a new file");
    let settings: Value = serde_json::from_str(&text).expect("plain JSON");
    for (event, entries) in settings["hooks"].as_object().expect("events") {
        let entry = entries[0].as_object().expect("an entry");
        assert_eq!(entry.keys().collect::<Vec<_>>(), ["hooks"], "{event}");
        let hook = entry["hooks"][0].as_object().expect("a hook");
        assert_eq!(hook.keys().collect::<Vec<_>>(), ["command", "timeout", "type"], "{event}");
    }
}

#[test]
fn tl_1_every_client_is_asked_before_each_tool() {
    for (client, scope, _) in every_target() {
        let texts: Vec<String> =
            all(client, scope).iter().map(|target| target.add(None).expect("a new file")).collect();
        let asks = texts.iter().any(|text| {
            ["PreToolUse", "preToolUse", "BeforeTool", "pre-tool-use"].iter().any(|name| text.contains(name))
        });
        assert!(asks, "{client:?} {scope:?}");
        assert!(texts.iter().any(|text| text.contains("/usr/local/bin/estop")), "{client:?} {scope:?}");
    }
}

#[test]
fn tl_1_new_files_are_deleted_again() {
    for (client, scope, target) in every_target() {
        for existing in [None, Some(""), Some(" \n")] {
            let text = target.add(existing).expect("a new file");
            assert_eq!(
                target.add(Some(&text)).as_deref(),
                Ok(text.as_str()),
                "{client:?} {scope:?} idempotent"
            );
            let removed = target.remove(&text).expect("ours");
            // The system's switch stays: it does nothing alone, and may have been there.
            let has_switch = client == HookClient::GeminiCli && scope == Scope::System;
            let is_switch = matches!(&removed, Removed::Text(left) if left.contains("hooksConfig"));
            assert!(
                removed == Removed::Delete || (has_switch && is_switch),
                "{client:?} {scope:?}: {removed:?}"
            );
        }
    }
}

const COMMENTED: &str = r#"{
  // What I like.
  "theme": "dark",
  "hooks": {
    "PreToolUse": [
      /* mine */
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "./mine.sh"}]}, // first
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
  },
  "last": [1, 2.5e3, null, true], // trailing commas, too
}
"#;

#[test]
fn tl_1_everything_else_stays_with_its_order_and_comments() {
    for client in SHARED {
        let target = only(client);
        let text = target.add(Some(COMMENTED)).expect("JSON with comments");
        let mut rest = text.as_str();
        for line in COMMENTED.lines().filter(|line| !line.contains("\"Stop\"")) {
            let part = line.trim().trim_end_matches("},").trim_end_matches("],");
            let at = rest.find(part);
            assert!(at.is_some(), "{client:?} lost `{part}`, or its order:\n{text}");
            rest = &rest[at.unwrap_or_default()..];
        }
        assert_eq!(target.remove(&text), Ok(Removed::Text(COMMENTED.to_owned())), "{client:?}");
        assert_eq!(target.remove(COMMENTED), Ok(Removed::Unchanged), "{client:?}");
    }
}

#[test]
fn tl_1_a_moved_estop_replaces_its_old_entries() {
    for client in SHARED {
        let elsewhere = ["/opt/my tools/estop".to_owned()];
        let older = targets(client, Scope::User, &elsewhere).expect("a place").remove(0);
        let old = older.add(Some(COMMENTED)).expect("good");
        assert!(old.contains(r#"\"/opt/my tools/estop\" hook "#), "{old}");
        let new = only(client).add(Some(&old)).expect("good");
        assert!(!new.contains("/opt/my tools"), "{client:?}");
        assert_eq!(new, only(client).add(Some(COMMENTED)).expect("good"), "{client:?}");
        assert_eq!(older.remove(&new), Ok(Removed::Text(COMMENTED.to_owned())), "{client:?}");
    }
}

#[test]
fn tl_1_removing_takes_ours_out_of_an_entry_shared_with_others() {
    let shared = r#"{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [
      {"type": "command", "command": "/x/estop hook claude-code PreToolUse --installed"},
      {"type": "command", "command": "./mine.sh"}
    ]}], "Stop": []}}"#;
    let Ok(Removed::Text(text)) = only(HookClient::ClaudeCode).remove(shared) else {
        unreachable!("something stays")
    };
    let left: Value = serde_json::from_str(&text).expect("still JSON");
    assert_eq!(
        left,
        serde_json::json!({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "./mine.sh"}]}], "Stop": []}})
    );
}

#[test]
fn tl_1_removing_leaves_what_only_looks_like_ours() {
    let theirs = [
        "estop hook claude-code PreToolUse",
        "estop hook codex PreToolUse --installed",
        "estop hook claude-code PreToolUse --installed && ./more.sh",
        "my-estop-hook claude-code",
    ];
    for command in theirs {
        let text =
            serde_json::json!({"hooks": {"PreToolUse": [{"hooks": [{"command": command}]}]}}).to_string();
        assert_eq!(only(HookClient::ClaudeCode).remove(&text), Ok(Removed::Unchanged), "{command}");
    }
}

#[test]
fn tl_1_a_comment_behind_our_entry_does_not_break_the_file() {
    let target = only(HookClient::GeminiCli);
    let text = target.add(Some("{\n  \"a\": 1\n}\n")).expect("good");
    // A person writes comments around ours.
    let noted = text
        .replace("\"hooks\": {", "// estop\n  \"hooks\": { // these\n")
        .replace("\n  }\n}", "\n  } // end\n}");
    let Ok(Removed::Text(left)) = target.remove(&noted) else { unreachable!("a stays") };
    let again = target.add(Some(&left)).expect("what is left can be read");
    assert!(left.contains("// estop") && left.contains("\"a\": 1"), "{left}");
    assert!(again.contains("BeforeTool"));
}

#[test]
fn tl_1_a_file_that_cannot_be_read_is_left_alone() {
    let target = only(HookClient::ClaudeCode);
    let broken = |text: &str| target.add(Some(text)).expect_err(text);
    assert_eq!(
        broken("{\n  \"a\": tru\n}"),
        SettingsError::Broken { line: 2, what: "Unexpected word".to_owned() }
    );
    for text in [
        "{",
        "{\"a\" 1}",
        "{\"a\": 1 \"b\": 2}",
        "{'a': 1}",
        "{} {}",
        "/* never ends",
        "{\"a\": \"x",
        "\u{0}",
    ] {
        assert!(matches!(broken(text), SettingsError::Broken { .. }), "{text}");
        assert!(target.remove(text).is_err(), "{text}");
    }
    for text in ["[]", "7", "\"x\"", "{\"hooks\": []}", "{\"hooks\": {\"PreToolUse\": {}}}"] {
        assert!(matches!(broken(text), SettingsError::Shape { .. }), "{text}");
    }
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(broken(&deep), SettingsError::Broken { .. }));
}

#[test]
fn tl_1_a_hook_somebody_else_wrote_is_not_overwritten() {
    for client in [HookClient::Cline, HookClient::Copilot, HookClient::Opencode, HookClient::OpenClaw] {
        for target in all(client, Scope::User) {
            let theirs = "#!/bin/sh\n./mine.sh\n";
            assert_eq!(target.add(Some(theirs)), Err(SettingsError::SomeoneElses), "{}", target.path);
            assert_eq!(target.remove(theirs), Ok(Removed::Unchanged), "{}", target.path);
        }
    }
}

#[test]
fn tl_1_cline_gets_one_program_for_each_event() {
    let scripts = all(HookClient::Cline, Scope::Project);
    assert!(scripts.iter().all(|script| script.is_executable));
    let before =
        scripts.iter().find(|script| script.path == ".clinerules/hooks/PreToolUse").expect("it is there");
    let text = before.add(None).expect("a new file");
    assert!(text.starts_with("#!/bin/sh\n"));
    assert!(text.ends_with("exec /usr/local/bin/estop hook cline PreToolUse --installed\n"), "{text}");
}

#[test]
fn tl_1_words_of_the_command_survive_a_shell() {
    let words =
        ["/a b/estop", "it's", "$HOME", "", "\"q\"", r"C:\Program Files\estop.exe"].map(str::to_owned);
    let script = targets(HookClient::Cline, Scope::User, &words).expect("a place").remove(0);
    let text = script.add(None).expect("a new file");
    let line = text.lines().last().and_then(|line| line.strip_prefix("exec ")).expect("the command");
    let print = format!("printf '%s\\n' {line}");
    let shell = std::process::Command::new("sh").args(["-c", &print]).output().expect("a shell");
    let said = String::from_utf8(shell.stdout).expect("text");
    let mut expected: Vec<&str> = words.iter().map(String::as_str).collect();
    expected.extend(["hook", "cline", "TaskStart", "--installed"]);
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn tl_1_it_is_known_which_scope_a_repository_cannot_switch_off() {
    assert!(survives_repository(HookClient::ClaudeCode, Scope::System));
    assert!(!survives_repository(HookClient::ClaudeCode, Scope::User));
    assert!(survives_repository(HookClient::GeminiCli, Scope::System));
    assert!(!survives_repository(HookClient::Copilot, Scope::User));
    let system = all(HookClient::GeminiCli, Scope::System).remove(0).add(None).expect("a new file");
    assert!(
        system.contains(r#""hooksConfig": {"enabled": true}"#),
        "a project's `false` must lose: {system}"
    );
}

#[test]
fn tl_1_a_file_that_switches_hooks_off_is_found() {
    let off = [
        (HookClient::ClaudeCode, r#"{"disableAllHooks": true}"#, "disableAllHooks"),
        (HookClient::Copilot, r#"{"disableAllHooks": true}"#, "disableAllHooks"),
        (HookClient::Qwen, r#"{"disableAllHooks": true /* why */}"#, "disableAllHooks"),
        (HookClient::GeminiCli, r#"{"hooksConfig": {"enabled": false}}"#, "hooksConfig.enabled"),
        (HookClient::Codex, "[features]\nhooks = false\n", "features.hooks"),
    ];
    for (client, text, key) in off {
        assert_eq!(switched_off(client, text), Some(key), "{client:?}");
        let on = text.replace("true", "0").replace("false", "true").replace("0", "false");
        assert_eq!(switched_off(client, &on), None, "{client:?}");
        assert_eq!(switched_off(client, "broken {"), None, "{client:?}");
    }
}

const CODEX_TOML: &str = "# mine\nmodel = \"gpt-6.1-sol\"  # best\n\n[hooks.state.\"/h/.codex/hooks.json:stop:0:0\"]\ntrusted_hash = \"sha256:1\"\n\n[features]\nhooks = true\n";

fn trust(n: u32) -> CodexTrust {
    CodexTrust { key: format!("/h/.codex/hooks.json:pre_tool_use:0:{n}"), hash: format!("sha256:{n}") }
}

#[test]
fn tl_1_codex_trusts_our_hooks_and_keeps_its_file() {
    let hooks = [trust(1), trust(2)];
    let keys = hooks.clone().map(|hook| hook.key);
    for existing in ["", "model = \"m\"\n", CODEX_TOML] {
        let trusted = trust_codex(Some(existing), &hooks).expect("TOML");
        assert_eq!(trust_codex(Some(&trusted), &hooks).as_deref(), Ok(trusted.as_str()), "idempotent");
        for hook in &hooks {
            let lines = format!("[hooks.state.\"{}\"]\ntrusted_hash = \"{}\"", hook.key, hook.hash);
            assert!(trusted.contains(&lines), "{trusted}");
        }
        assert!(existing.lines().all(|line| trusted.contains(line)), "{trusted}");
        let expected = if existing.is_empty() { Removed::Delete } else { Removed::Text(existing.to_owned()) };
        assert_eq!(distrust_codex(&trusted, &keys), Ok(expected));
        assert_eq!(distrust_codex(existing, &keys), Ok(Removed::Unchanged));
    }
    assert!(matches!(trust_codex(Some("a = "), &hooks), Err(SettingsError::Broken { line: 1, .. })));
    assert!(matches!(trust_codex(Some("hooks = 1"), &hooks), Err(SettingsError::Shape { .. })));
    let newer = CodexTrust { hash: "sha256:9".to_owned(), ..trust(1) };
    let trusted = trust_codex(Some(CODEX_TOML), &[trust(1)]).expect("TOML");
    let updated = trust_codex(Some(&trusted), &[newer]).expect("TOML");
    assert!(updated.contains("sha256:9") && updated.matches("pre_tool_use:0:1").count() == 1, "{updated}");
}

/// White space and comments between tokens.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(" ".to_owned()),
        4 => Just("\n    ".to_owned()),
        2 => Just(String::new()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" /* c, } ] */ ".to_owned()),
        1 => Just(" // l \" { ,\n  ".to_owned()),
    ]
}

/// A value as people write it: any layout, comments, a comma too many.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("true".to_owned()),
        "[ -~äß😀]{0,6}".prop_map(|text| Value::String(text).to_string()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| prop_oneof![list(inner.clone()), object(inner, "[a-z]{1,4}")])
}

fn list(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let item = (gap(), inner, gap()).prop_map(|(before, value, after)| format!("{before}{value}{after}"));
    (prop::collection::vec(item, 1..4), any::<bool>())
        .prop_map(|(items, comma)| format!("[{}{}]", items.join(","), if comma { "," } else { "" }))
}

fn object(inner: impl Strategy<Value = String>, keys: &'static str) -> impl Strategy<Value = String> {
    let member = (gap(), keys, gap(), inner, gap()).prop_map(|(before, key, middle, value, after)| {
        format!("{before}\"{key}\"{middle}:{middle}{value}{after}")
    });
    (prop::collection::vec(member, 1..4), any::<bool>())
        .prop_map(|(members, comma)| format!("{{{}{}}}", members.join(","), if comma { "," } else { "" }))
}

/// A settings file, sometimes with hooks of somebody else.
fn settings() -> impl Strategy<Value = String> {
    let hook = (gap(), gap())
        .prop_map(|(a, b)| format!("{{{a}\"type\":{b}\"command\",{a}\"command\":\"./x.sh\"{b}}}"));
    let entry =
        (gap(), list(hook)).prop_map(|(a, hooks)| format!("{{{a}\"matcher\":\"*\",{a}\"hooks\":{hooks}}}"));
    let hooks = object(list(entry), "(PreToolUse|BeforeTool|Stop|SessionStart|preToolUse)");
    let plain = object(value(), "[a-z]{5}");
    (plain, prop::option::of(hooks), gap()).prop_map(|(plain, hooks, gap)| match hooks {
        Some(hooks) => format!("{{\"hooks\":{gap}{hooks},{}", &plain[1..]),
        None => plain,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn tl_1_adding_is_idempotent_and_removing_is_its_reverse(text in settings(), which in 0usize..SHARED.len()) {
        let target = only(SHARED[which]);
        let added = target.add(Some(&text)).expect("good settings");
        prop_assert!(added.len() > text.len());
        prop_assert_eq!(target.add(Some(&added)).expect("still good"), added.clone());
        prop_assert_eq!(target.remove(&added), Ok(Removed::Text(text.clone())));
        prop_assert_eq!(target.remove(&text), Ok(Removed::Unchanged));
    }

    #[test]
    fn tl_1_no_settings_make_it_panic(text in "[{}\\[\\]\",:/* \n\\\\a1é]{0,60}", which in 0usize..SHARED.len()) {
        let target = only(SHARED[which]);
        if let Ok(added) = target.add(Some(&text)) {
            prop_assert_eq!(target.add(Some(&added)), Ok(added.clone()));
            prop_assert!(target.remove(&added).is_ok());
        }
    }
}
