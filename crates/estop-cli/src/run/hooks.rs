//! Hooks for one run, without editing anybody's files: by an option, a variable, or a file of the run's own. Where a client
//! has no such way, it is said how to install them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use estop_wire::hooks::HookClient;
use serde_json::{Value, json};

use super::clients::{Client, OPENCODE, opencode_config, put_first};
use super::codex;
use super::outfit::Outfit;
use crate::install;
use crate::install::settings::{Scope, estop_words, targets};

const GEMINI: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
const GEMINI_SYSTEM: &str = "/etc/gemini-cli/settings.json";

/// Puts the hooks of a client into its outfit.
pub(super) fn inject(client: Client, program: &OsStr, data_dir: &Path, outfit: &mut Outfit) {
    let kind = match client {
        Client::ClaudeCode => HookClient::ClaudeCode,
        Client::Codex => HookClient::Codex,
        Client::GeminiCli => HookClient::GeminiCli,
        Client::Opencode => HookClient::Opencode,
        Client::Copilot => HookClient::Copilot,
        Client::Qwen => HookClient::Qwen,
        Client::Cline => HookClient::Cline,
        Client::OpenClaw => HookClient::OpenClaw,
        Client::Cursor => HookClient::Cursor,
        Client::Other => return,
    };
    // With the data directory: what is written goes before what a repository may set in a hook's environment.
    let estop = match install::this_program() {
        Ok(estop) => [estop, "--data-dir".to_owned(), data_dir.display().to_string()],
        Err(why) => {
            return outfit
                .say(format!("estop does not find itself ({why:#}): the program's tools do NOT ask it."));
        }
    };
    if is_installed(kind, Path::new(&estop[0]), data_dir) {
        if client == Client::Codex {
            codex::switch_on(outfit);
        }
        return warn_if_off(kind, outfit);
    }
    let done = match client {
        Client::ClaudeCode => claude_code(outfit, &estop),
        Client::Codex => codex::hooks(program, outfit, &estop),
        Client::GeminiCli => gemini(outfit, &estop),
        Client::Opencode => opencode(outfit, &estop),
        Client::Copilot
        | Client::Qwen
        | Client::Cline
        | Client::OpenClaw
        | Client::Cursor
        | Client::Other => Err("it reads hooks from its own files alone".to_owned()),
    };
    match done {
        Ok(()) => warn_if_off(kind, outfit),
        Err(why) => outfit.say(format!(
            "no hooks for this run ({why}): its tool calls are counted from the model's answers, and are not asked for one by \
             one. `estop install {}` changes that.",
            kind.name()
        )),
    }
}

/// The settings with our hooks, as the client's own file would have them.
pub(super) fn settings(
    kind: HookClient,
    scope: Scope,
    estop: &[String],
    given: Option<&str>,
) -> Result<String, String> {
    let targets = targets(kind, scope, estop).map_err(|error| error.to_string())?;
    let target = targets.first().ok_or("there is no place for them")?;
    target.add(given).map_err(|error| error.to_string())
}

/// Whether `estop install` did it already, for the person or the machine, all of it and with this estop and its data
/// directory: a turn would count twice. What a repository's files say is not believed.
fn is_installed(kind: HookClient, estop: &Path, data_dir: &Path) -> bool {
    let place = |path: &str| install::place_of(path).ok();
    [Scope::User, Scope::System].into_iter().any(|scope| is_complete(kind, scope, (estop, data_dir), place))
        && (kind != HookClient::Codex || codex_trusts())
}

fn codex_trusts() -> bool {
    install::place_of("~/.codex/hooks.json").and_then(|hooks| install::codex_trusts(&hooks)).unwrap_or(false)
}

/// Whether each file of a scope is as we would write it now.
fn is_complete(
    kind: HookClient,
    scope: Scope,
    (estop, data_dir): (&Path, &Path),
    place: impl Fn(&str) -> Option<PathBuf>,
) -> bool {
    let read = |path: &str| std::fs::read_to_string(place(path)?).ok();
    let Ok(files) = targets(kind, scope, &[estop.display().to_string()]) else { return false };
    let texts: Vec<String> = files.iter().filter_map(|file| read(&file.path)).collect();
    let words = texts.iter().flat_map(|text| estop_words(kind, text)).next().unwrap_or_default();
    let is_this = words.first().is_some_and(|program| is_same(Path::new(program), estop));
    let asks = words.iter().skip_while(|word| *word != "--data-dir").nth(1).map(Path::new);
    let is_here = asks.is_some_and(|asks| asks == data_dir || is_same(asks, data_dir));
    is_this
        && is_here
        && targets(kind, scope, &words).is_ok_and(|files| {
            files.len() == texts.len()
                && files.iter().zip(&texts).all(|(file, text)| file.add(Some(text)).as_ref() == Ok(text))
        })
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// A file of the repository may switch hooks off.
fn warn_if_off(kind: HookClient, outfit: &mut Outfit) {
    // For Codex, its command line wins over that.
    for (path, key) in install::switches_set(kind).into_iter().filter(|_| kind != HookClient::Codex) {
        outfit.say(format!("`{key}` in {} switches hooks off: its tools do NOT ask estop.", path.display()));
    }
}

fn claude_code(outfit: &mut Outfit, estop: &[String]) -> Result<(), String> {
    let has =
        |option: &str| {
            outfit.args.iter().filter_map(|word| word.to_str()).any(|word| {
                word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
            })
        };
    if has("--settings") {
        return Err("it is given --settings already".to_owned());
    }
    let text = settings(HookClient::ClaudeCode, Scope::User, estop, None)?;
    let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    put_first(outfit, vec!["--settings".into(), OsString::from(json.to_string())]);
    Ok(())
}

/// The system's settings win over a project's that switch hooks off; what is there stays.
fn gemini(outfit: &mut Outfit, estop: &[String]) -> Result<(), String> {
    let system = outfit.variable(GEMINI).unwrap_or_else(|| GEMINI_SYSTEM.to_owned());
    let given = std::fs::read_to_string(&system).ok();
    let text = settings(HookClient::GeminiCli, Scope::System, estop, given.as_deref())?;
    let path = outfit.folder.write("gemini.json", &text).map_err(|error| error.to_string())?;
    let path = path.into_os_string().into_string().map_err(|_| "its path is not text".to_owned())?;
    outfit.set(GEMINI, &path);
    Ok(())
}

fn opencode(outfit: &mut Outfit, estop: &[String]) -> Result<(), String> {
    let text = settings(HookClient::Opencode, Scope::User, estop, None)?;
    let path = outfit.folder.write("estop.js", &text).map_err(|error| error.to_string())?;
    let mut config = opencode_config(outfit).ok_or_else(|| format!("{OPENCODE} is no JSON object"))?;
    let plugin = json!(format!("file://{}", path.display()));
    let plugins = config.entry("plugin").or_insert_with(|| json!([]));
    match plugins.as_array_mut() {
        Some(plugins) => plugins.push(plugin),
        None => return Err(format!("`plugin` in {OPENCODE} is no list")),
    }
    outfit.set(OPENCODE, &Value::Object(config).to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl_2_hooks_count_as_installed_only_whole_and_with_this_estop() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("settings.json");
        let this = std::env::current_exe().expect("the test");
        let is = |text: &str| {
            std::fs::write(&file, text).expect("written");
            is_complete(HookClient::ClaudeCode, Scope::User, (&this, Path::new("/d")), |_| Some(file.clone()))
        };
        let at = |program: &str, data_dir: &str| {
            let words = [program, "--data-dir", data_dir].map(str::to_owned);
            settings(HookClient::ClaudeCode, Scope::User, &words, None).expect("settings")
        };
        let with = |program: &str| at(program, "/d");
        let whole = with(&this.display().to_string());
        assert!(is(&whole));
        assert!(!is(&at(&this.display().to_string(), "/other")), "they ask another estop");
        assert!(!is(&with("/gone/estop")), "it is not there");
        assert!(!is(&with("/bin/sh")), "another program");
        assert!(!is(&whole.replacen("PreToolUse", "PostToolUse", 1)), "one is missing");
        assert!(
            !is(&format!("{{\"x\": \"{} hook claude-code PreToolUse --installed\"}}", this.display())),
            "no hook"
        );
        assert!(!is("// estop hook claude-code PreToolUse"), "a comment");
    }
}
