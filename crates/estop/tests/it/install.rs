//! `estop install` and `estop uninstall` on real files (TL-1).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use crate::ran::{Ran, write_program};
use serde_json::Value;
use tempfile::TempDir;

const CLIENTS: [&str; 9] =
    ["claude-code", "codex", "gemini-cli", "copilot", "cline", "qwen", "cursor", "opencode", "openclaw"];
const MINE: &str = "{\n  \"theme\": \"dark\",\n  \"hooks\": {}\n}\n";
/// The same for those who take comments.
const NOTED: &str = "{\n  // mine\n  \"theme\": \"dark\", /* \"hooks\": {} */\n  \"hooks\": {}\n}\n";

/// A person's home, with a project in it.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Home {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("project")).unwrap();
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        Home { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_estop"));
        command.args(args).env_clear().env("HOME", self.folder.path()).current_dir(self.path("project"));
        // No client of this machine is in the way; `sh` is for those that the tests bring.
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        Ran::of(&command.output().unwrap())
    }

    /// A program of this name.
    fn program(&self, name: &str, text: &str) {
        write_program(&self.path(&format!("bin/{name}")), text);
    }

    /// All files, with what they hold.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }
}

/// What a Codex that trusts what its `config.toml` names would say. `STATUS` is what it says about trust.
fn codex(home: &Home) {
    let script = r#"#!/bin/sh
file="$HOME/.codex/hooks.json"
printf '{"id":1,"result":{"codexHome":"%s/.codex"}}\n' "$HOME"
printf '{"method":"remoteControl/status/changed","params":{}}\n'
status=untrusted
grep -q "sha256:abc" "$HOME/.codex/config.toml" 2>/dev/null && status=trusted
hook=$(printf '{"key":"%s:pre_tool_use:0:0","sourcePath":"%s","command":"estop hook codex PreToolUse --installed","currentHash":"sha256:abc","trustStatus":"%s"}' "$file" "$file" "$status")
printf '{"id":2,"result":{"data":[{"hooks":[%s,{"key":"k","sourcePath":"/other","command":"mine"}]}]}}\n' "$hook"
cat > /dev/null
"#;
    home.program("codex", script);
}

#[test]
fn tl_1_installing_twice_changes_nothing_and_uninstalling_gives_everything_back() {
    for client in CLIENTS {
        for is_mine_there in [false, true] {
            let home = Home::new();
            codex(&home);
            if is_mine_there {
                home.write(".claude/settings.json", MINE);
                home.write(".gemini/settings.json", NOTED);
                home.write(".qwen/settings.json", NOTED);
                home.write(".codex/hooks.json", "{\"hooks\": {\n}}");
                home.write(".codex/config.toml", "model = \"gpt-5.4\"\n\n\n[features]\nx = true\n\n");
                home.write(".cursor/hooks.json", "");
            }
            let before = home.files();
            home.run(&["install", client]).is(0, "asks estop from its next session on");
            let installed = home.files();
            assert_ne!(installed, before, "{client}");
            home.run(&["install", client]).is(0, "nothing to change");
            assert_eq!(home.files(), installed, "{client}: the second time");
            home.run(&["uninstall", client]).is(0, "does not ask estop any more");
            assert_eq!(home.files(), before, "{client}");
            home.run(&["uninstall", client]).is(0, "nothing to change");
            assert_eq!(home.files(), before, "{client}");
        }
    }
}

#[test]
fn tl_1_a_dry_run_shows_the_difference_and_changes_nothing() {
    let home = Home::new();
    home.write(".claude/settings.json", MINE);
    let before = home.files();
    let ran = home.run(&["install", "claude-code", "--dry-run"]);
    ran.is(0, "Nothing was changed");
    assert!(ran.out.contains("@@ -1,4 +1,"), "{ran:?}");
    assert!(ran.out.contains("\n   \"theme\": \"dark\",\n"), "{ran:?}");
    assert!(ran.out.contains("hook claude-code PreToolUse --installed"), "{ran:?}");
    assert_eq!(home.files(), before);
    let system = home.run(&["install", "claude-code", "--scope", "system", "--dry-run", "--json"]).json();
    assert_eq!(system["files"][0]["path"], "/etc/claude-code/managed-settings.json");
    assert!(system["notes"].to_string().contains("No file of a repository can switch"), "{system}");
}

#[test]
fn tl_1_the_copy_is_the_file_before_estop_and_never_one_that_estop_edited() {
    let home = Home::new();
    let (settings, copy) = (".claude/settings.json", ".claude/settings.json.estop-backup");
    home.write(settings, MINE);
    home.run(&["install", "claude-code"]).is(0, "settings.json.estop-backup");
    assert_eq!(home.read(copy), MINE);
    home.run(&["install", "claude-code", "--agent", "a1", "--on-unreachable", "deny"]).is(0, "--agent a1");
    assert_eq!(home.read(copy), MINE);
    // The person changes something in between: it stays, and the copy too, because it is not the same any more.
    home.write(settings, &home.read(settings).replace("dark", "light"));
    home.run(&["uninstall", "claude-code"]).is(0, "does not ask");
    let left = home.read(settings);
    assert!(left.contains("\"light\"") && !left.contains("estop"), "{left}");
    assert_eq!(home.read(copy), MINE);
    home.run(&["install", "claude-code"]).is(0, "next session");
    assert_eq!(home.read(copy), left);
}

#[test]
fn tl_1_links_are_followed_and_modes_stay() {
    let home = Home::new();
    let real = home.write("dotfiles/claude.json", "{}\n");
    fs::set_permissions(&real, PermissionsExt::from_mode(0o600)).unwrap();
    fs::create_dir(home.path(".claude")).unwrap();
    symlink("../dotfiles/claude.json", home.path(".claude/settings.json")).unwrap();
    home.run(&["install", "claude-code"]).is(0, "next session");
    assert!(home.path(".claude/settings.json").is_symlink());
    assert!(home.read("dotfiles/claude.json").contains("PreToolUse"));
    let mode = |name: &str| fs::metadata(home.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("dotfiles/claude.json"), mode("dotfiles/claude.json.estop-backup")), (0o600, 0o600));
    home.run(&["uninstall", "claude-code"]).is(0, "does not ask");
    assert_eq!(home.read("dotfiles/claude.json"), "{}\n");
    home.run(&["install", "cline"]).is(0, "next session");
    assert_eq!(mode(".cline/hooks/PreToolUse") & 0o100, 0o100);
}

#[test]
fn tl_1_what_cannot_be_understood_is_refused_with_its_line_and_left_alone() {
    let home = Home::new();
    for (text, why) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}\n", "line 2: Expected comma"),
        ("{\"hooks\": []}", "`hooks` is not an object"),
        ("[1]", "not an object"),
        // It would not start with this.
        ("{\n  \"a\": 1,\n}\n", "line 3"),
    ] {
        home.write(".gemini/settings.json", text);
        let before = home.files();
        home.run(&["install", "gemini-cli"]).is(2, why).is(2, "left as it is");
        assert_eq!(home.files(), before);
    }
    // Gemini CLI takes comments. Claude Code would skip every hook in such a file.
    home.write(".claude/settings.json", NOTED);
    home.run(&["install", "claude-code"]).is(2, "line 2").is(2, "left as it is");
    assert_eq!(home.read(".claude/settings.json"), NOTED);
    fs::write(home.path(".gemini/settings.json"), [0xff, 0xfe]).unwrap();
    home.run(&["install", "gemini-cli"]).is(2, "not UTF-8");
    home.write(".cline/hooks/PreToolUse", "#!/bin/sh\nexit 0\n");
    let before = home.files();
    home.run(&["install", "cline"]).is(2, "estop did not write");
    assert_eq!(home.files(), before, "none of the other events either");
}

#[test]
fn tl_1_a_switch_that_keeps_hooks_from_running_is_named() {
    let home = Home::new();
    home.write("project/.claude/settings.json", "{\"disableAllHooks\": true}");
    let ran = home.run(&["install", "claude-code"]);
    ran.is(1, "`disableAllHooks` in").is(1, "keeps these hooks from running");
    let ran = home.run(&["install", "gemini-cli"]);
    ran.is(0, "A repository can switch these hooks off").is(0, "--scope system");
}

#[test]
fn tl_1_codex_is_told_to_trust_the_hooks_or_the_person_is_told_how() {
    let home = Home::new();
    home.run(&["install", "codex"]).is(1, "not in PATH").is(1, "/hooks");
    codex(&home);
    home.run(&["install", "codex"]).is(0, "config.toml");
    let config = home.read(".codex/config.toml");
    let key = format!("[hooks.state.\"{}:pre_tool_use:0:0\"]", home.path(".codex/hooks.json").display());
    assert!(config.contains(&key) && config.contains("trusted_hash = \"sha256:abc\""), "{config}");
    home.run(&["uninstall", "codex"]).is(0, "does not ask");
    assert!(!home.path(".codex/config.toml").exists());
    home.program("codex", "#!/bin/sh\nexit 3\n");
    home.run(&["install", "codex"]).is(1, "cannot be asked");
}

#[test]
fn tl_1_the_installed_command_is_one_that_estop_hook_understands() {
    let home = Home::new();
    let folder = home.path("state of mine");
    let line = ["install", "claude-code", "--agent", "coder-1", "--on-unreachable", "deny", "--data-dir"];
    home.run(&[&line[..], &[folder.to_str().unwrap()]].concat()).is(0, "next session");
    let settings: Value = serde_json::from_str(&home.read(".claude/settings.json")).unwrap();
    let command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    let ran = Command::new("sh").args(["-c", command]).env_clear().env("HOME", home.folder.path()).output();
    let ran = Ran::of(&ran.unwrap());
    ran.is(2, "state of mine/estop.sock").is(2, "--on-unreachable says so");
    assert_eq!(ran.json()["hookSpecificOutput"]["permissionDecision"], "deny");
}

#[test]
fn tl_1_install_writes_what_to_do_when_estop_cannot_be_asked() {
    let written = |args: &[&str]| {
        let ran = Home::new().run(&[&["install", "claude-code", "--dry-run"], args].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains(" --data-dir "), "which estop it asks is always written: {ran:?}");
        let said = |rule: &str| ran.out.contains(&format!("--on-unreachable {rule} "));
        (said("deny"), said("allow"))
    };
    assert_eq!(written(&[]), (true, false), "nobody was asked, and nobody chose");
    assert_eq!(written(&["--scope", "system"]), (true, false));
    assert_eq!(written(&["--on-unreachable", "allow"]), (false, true));
    assert_eq!(written(&["--scope", "system", "--on-unreachable", "allow"]), (false, true));
    assert_eq!(written(&["--on-unreachable", "deny"]), (true, false));
    Home::new().run(&["install", "claude-code"]).is(0, "While estop cannot be asked, no tool runs");
}

#[test]
fn tl_1_without_a_client_those_found_here_are_listed_with_how_they_stand() {
    let home = Home::new();
    home.program("qwen", "#!/bin/sh\n");
    home.write(".claude/settings.json", "{}");
    home.run(&["install", "gemini-cli"]).is(0, "");
    home.write(".cursor/hooks.json", "{");
    let listed = home.run(&["install", "--json"]).json();
    let of = |client: &str| {
        let all = listed["clients"].as_array().unwrap();
        all.iter().find(|standing| standing["client"] == client).unwrap().clone()
    };
    assert_eq!(of("claude-code")["found"], true);
    assert_eq!(of("claude-code")["installed"].as_array().unwrap().len(), 0);
    assert_eq!(of("qwen")["program"], home.path("bin/qwen").to_str().unwrap());
    assert_eq!(of("gemini-cli")["installed"][0], "user");
    assert_eq!(of("openclaw")["found"], false);
    assert!(of("cursor")["problem"].as_str().unwrap().contains("line 1"), "{listed}");
    home.run(&["install"]).is(0, "asks estop");
    home.run(&["install", "word"]).is(2, "claude-code, codex");
    home.run(&["install", "codex", "--scope", "system"]).is(2, "choose another scope");
}

#[test]
fn tl_1_an_old_copy_is_kept_only_while_something_of_ours_is_in_the_file() {
    let home = Home::new();
    let mine = "{\"trusted\": [\"/home/me/estop\"], \"mcpServers\": {\"a\": {\"command\": \"a\"}}}\n";
    home.write(".gemini/settings.json", mine);
    home.write(".gemini/settings.json.estop-backup", "{\"from\": \"long ago\"}\n");
    home.run(&["install", "gemini-cli"]).is(0, "settings.json.estop-backup");
    assert_eq!(home.read(".gemini/settings.json.estop-backup"), mine);
    // Hooks are in it now: the copy is from before them.
    home.run(&["install", "mcp", "--client", "gemini-cli"]).is(0, "behind the gate");
    assert_eq!(home.read(".gemini/settings.json.estop-backup"), mine);

    // The other way round.
    let home = Home::new();
    home.write(".gemini/settings.json", mine);
    home.write(".gemini/settings.json.estop-backup", "{\"from\": \"long ago\"}\n");
    home.run(&["install", "mcp", "--client", "gemini-cli"]).is(0, "behind the gate");
    assert_eq!(home.read(".gemini/settings.json.estop-backup"), mine);
    home.run(&["install", "gemini-cli"]).is(0, "settings.json.estop-backup");
    assert_eq!(home.read(".gemini/settings.json.estop-backup"), mine);
}

#[test]
fn tl_3_the_gate_of_an_estop_that_listens_everywhere_is_reached_on_this_machine() {
    let home = Home::new();
    let mine = "{\"mcpServers\": {\"x\": {\"url\": \"https://x.example/mcp\"}}}";
    home.write(".cursor/mcp.json", mine);
    let config = "listen: {data: \"0.0.0.0:4200\"}\nbehind_tls_proxy: true\nmcp: {servers: {x: {url: \"https://x.example/mcp\"}}}\n";
    let config = home.write("estop.yaml", config);
    let config = config.to_str().unwrap();
    let install = ["install", "mcp", "--client", "cursor"];
    home.run(&install).is(1, "does not know it");
    home.run(&[&install[..], &["--config", config]].concat()).is(0, "behind the gate");
    assert!(home.read(".cursor/mcp.json").contains("\"http://127.0.0.1:4200/mcp/x\""));
    home.run(&["uninstall", "mcp", "--client", "cursor", "--config", config]).is(0, "as they were");
    assert_eq!(home.read(".cursor/mcp.json"), mine);
}

#[test]
fn tl_1_a_name_that_no_agent_can_have_is_refused_before_it_stands_in_a_file() {
    let home = Home::new();
    for name in ["two words", "", ".hidden", "system"] {
        home.run(&["install", "claude-code", "--agent", name]).is(2, "--agent");
    }
    assert_eq!(home.files(), []);
}
