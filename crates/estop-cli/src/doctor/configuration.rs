//! The configuration: whether `estop serve` would take it, and variables that were meant for it and are not read.

use std::path::Path;

use estop_config::{Env, PemFiles, ServeConfig, closest, load_serve};

use super::{Area, Finding};

const AREA: Area = Area("configuration");
const PREFIX: &str = "ESTOP_";
/// Variables with a meaning of their own, beside those of a run.
const KNOWN: &[&str] = &[
    "ESTOP_ADMIN_TOKEN",
    "ESTOP_CONFIG",
    "ESTOP_LLM_ENABLED",
    "ESTOP_ON_UNREACHABLE",
    "ESTOP_TOKEN",
    "ESTOP_URL",
];

/// The configuration, if it can be used, and what was found.
pub(super) fn check(file: Option<&Path>, env: &Env) -> (Option<ServeConfig>, Vec<Finding>) {
    let mut findings = Vec::new();
    let config = match load_serve(file, env) {
        Ok(config) => {
            // What a start reads besides: certificates and keys in files.
            findings.push(match PemFiles::read(&config) {
                Ok(_) => AREA.ok(match &config.file {
                    Some(file) => format!("{} can be used", file.display()),
                    None => "there is no file, everything has its default".to_owned(),
                }),
                Err(error) => {
                    AREA.wrong(format!("estop serve would refuse it: {error:#}"), "correct what it names")
                }
            });
            Some(config)
        }
        Err(error) => {
            let fix = "correct it; docs/configuration.md has every key";
            findings.push(AREA.wrong(format!("estop serve would refuse it: {error}"), fix));
            None
        }
    };
    // A variable of any name may hold a key, if the file says so.
    let file = estop_config::file(file, env).ok().flatten();
    let files = file.map(|file| estop_config::watched(&file)).unwrap_or_default();
    let text: String = files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    let names = env.names().filter(|name| !text.contains(name));
    findings.extend(names.filter_map(|name| stray(name, &estop_config::top_keys())));
    findings.extend(elsewhere(env));
    (config, findings)
}

/// A variable that looks like a key of the configuration and is none, so that nobody reads it.
fn stray(name: &str, keys: &[&str]) -> Option<Finding> {
    let word = name.strip_prefix(PREFIX)?.to_lowercase();
    // With two underscores it is a key, or was refused with the rest.
    let is_known = KNOWN.contains(&name) || estop_config::OF_A_RUN.contains(&name);
    if is_known || word.contains("__") || keys.contains(&word.as_str()) {
        return None;
    }
    let section = keys.iter().find_map(|key| Some((key, word.strip_prefix(key)?.strip_prefix('_')?)));
    let meant = match section {
        Some((key, rest)) => format!("{key}__{rest}"),
        None => closest(&word, keys.iter().copied())?.to_owned(),
    };
    let meant = format!("{PREFIX}{}", meant.to_uppercase());
    Some(AREA.warning(
        format!("the variable {name} is not read by anybody"),
        format!("did you mean {meant}? Otherwise unset it"),
    ))
}

/// Whoever sets ESTOP_URL and forgets it looks at another estop than this one.
fn elsewhere(env: &Env) -> Option<Finding> {
    env.names().any(|name| name == "ESTOP_URL").then(|| {
        AREA.warning(
            "ESTOP_URL is set: other commands ask the estop there, doctor looks at this machine's",
            "unset ESTOP_URL to steer the estop of this machine",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ui_2_variables_that_were_meant_for_the_configuration_are_told_from_others() {
        let keys = estop_config::top_keys();
        let fix = |name: &str| stray(name, &keys).and_then(|finding| finding.fix);
        for (name, meant) in [
            ("ESTOP_LISTEN_DATA", "ESTOP_LISTEN__DATA"),
            ("ESTOP_DATADIR", "ESTOP_DATA_DIR"),
            ("ESTOP_PROVIDRES", "ESTOP_PROVIDERS"),
        ] {
            assert!(fix(name).is_some_and(|fix| fix.contains(meant)), "{name}: {:?}", fix(name));
        }
        for name in [
            "ESTOP_DATA_DIR",
            "ESTOP_LISTEN__DATA",
            "ESTOP_URL",
            "ESTOP_RUN",
            "ESTOP_KEY",
            "ESTOP_ADMIN_URL",
            "PATH",
        ] {
            assert_eq!(fix(name), None, "{name}");
        }
    }
}
