//! Hooks for one run, without editing anybody's files: by an option, a variable, or a file of the run's own. Where a client
//! has no such way, it is said how to install them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use estop_wire::hooks::HookClient;
use serde_json::Value;

use super::environment::Environment;
use super::{codex, opencode};
use crate::clients::{Descriptor, RunHooks};
use crate::install;
use crate::install::settings::{Scope, estop_words, targets, with_hooks};

/// Gives a client its hooks.
pub(super) fn inject(client: &Descriptor, program: &OsStr, data_dir: &Path, environment: &mut Environment) {
    // With the data directory: what is written goes before what a repository may set in a hook's environment.
    let estop = match install::this_program() {
        Ok(estop) => [estop, "--data-dir".to_owned(), data_dir.display().to_string()],
        Err(why) => {
            return environment
                .say(format!("estop does not find itself ({why:#}): the program's tools do NOT ask it."));
        }
    };
    if is_installed(client, Path::new(&estop[0]), data_dir) {
        if client.needs_trust {
            codex::switch_on(environment);
        }
        return warn_if_off(client, environment);
    }
    let done = match client.run_hooks {
        RunHooks::SettingsOption(option) => settings_option(client.client, option, environment, &estop),
        RunHooks::SystemSettings { variable, file } => {
            system_settings(client.client, (variable, file), environment, &estop)
        }
        RunHooks::Codex => codex::hooks(program, environment, &estop),
        RunHooks::Opencode => opencode::hooks(environment, &estop),
        RunHooks::None => Err(anyhow!("it reads hooks from its own files alone")),
    };
    match done {
        Ok(()) => warn_if_off(client, environment),
        Err(why) => environment.say(format!(
            "no hooks for this run ({why}): its tool calls are counted from the model's answers, and are not asked for one by \
             one. `estop install {}` changes that.",
            client.client.name()
        )),
    }
}

/// Whether `estop install` did it already, for the person or the machine, all of it and with this estop and its data
/// directory: a turn would count twice. What a repository's files say is not believed.
fn is_installed(client: &Descriptor, estop: &Path, data_dir: &Path) -> bool {
    let place = |path: &str| install::place_of(path).ok();
    let is_whole = |scope| is_complete(client.client, scope, (estop, data_dir), place);
    [Scope::User, Scope::System].into_iter().any(is_whole) && (!client.needs_trust || codex_trusts())
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
fn warn_if_off(client: &Descriptor, environment: &mut Environment) {
    // For Codex, its command line wins over that.
    for (path, key) in install::switches_set(client.client).into_iter().filter(|_| !client.needs_trust) {
        environment
            .say(format!("`{key}` in {} switches hooks off: its tools do NOT ask estop.", path.display()));
    }
}

/// By an option that takes settings as JSON.
fn settings_option(
    client: HookClient,
    option: &str,
    environment: &mut Environment,
    estop: &[String],
) -> anyhow::Result<()> {
    let is_option =
        |word: &str| word == option || word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='));
    if environment.args.iter().filter_map(|word| word.to_str()).any(is_option) {
        bail!("it is given {option} already");
    }
    let text = with_hooks(client, Scope::User, estop, None)?;
    let json: Value = serde_json::from_str(&text)?;
    environment.put_first(vec![option.into(), OsString::from(json.to_string())]);
    Ok(())
}

/// The system's settings win over a project's that switch hooks off; what is there stays.
fn system_settings(
    client: HookClient,
    (variable, file): (&str, &str),
    environment: &mut Environment,
    estop: &[String],
) -> anyhow::Result<()> {
    let system = environment.variable(variable).unwrap_or_else(|| file.to_owned());
    let given = std::fs::read_to_string(&system).ok();
    let text = with_hooks(client, Scope::System, estop, given.as_deref())?;
    let name = format!("{}.json", client.name());
    let path = environment.folder.write(&name, &text)?;
    let path = path.into_os_string().into_string().map_err(|_| anyhow!("its path is not text"))?;
    environment.set(variable, &path);
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
            with_hooks(HookClient::ClaudeCode, Scope::User, &words, None).expect("settings")
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
