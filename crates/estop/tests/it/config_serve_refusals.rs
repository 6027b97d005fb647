//! What the configuration of `estop serve` must not say, and what the user is told. The cases are in
//! `tests/it/config/serve_*.txt`: `## title`, variables (`$ NAME=value`), the file, `>>>`, the message.
//! `ESTOP_BLESS=1` writes the messages anew, for review.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use estop_config::Env;
use proptest::prelude::*;

fn check(cases_file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/config").join(cases_file);
    let text = fs::read_to_string(&path).expect("the cases are in the repository");
    let mut cases = text.split("## ");
    let mut answers = cases.next().expect("split gives at least one part").to_owned();
    for case in cases {
        let (title, rest) = case.split_once('\n').expect("a title line");
        let (given, _) = rest.split_once(">>>\n").expect("a >>> line");
        let variables = given.lines().filter_map(|line| line.strip_prefix("$ ")?.split_once('='));
        let env: Env = [("HOME", "/home/me")].into_iter().chain(variables).collect();
        let yaml: String = given.split_inclusive('\n').filter(|line| !line.starts_with("$ ")).collect();
        let answer = match estop_config::parse_serve(&yaml, "estop.yaml", &env) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        write!(answers, "## {title}\n{given}>>>\n{answer}\n\n").expect("writing to a string");
    }
    let answers = format!("{}\n", answers.trim_end());
    if std::env::var_os("ESTOP_BLESS").is_some() {
        fs::write(&path, &answers).expect("the cases are writable");
    }
    assert_eq!(answers, text, "{cases_file}: run with ESTOP_BLESS=1 and review the difference");
}

#[test]
fn al_1_wrong_alerts_are_refused() {
    check("serve_alerts.txt");
}

#[test]
fn ui_5_wrong_listeners_are_refused() {
    check("serve_listen.txt");
}

#[test]
fn id_4_wrong_providers_are_refused() {
    check("serve_providers.txt");
}

#[test]
fn ks_10_wrong_relays_are_refused() {
    check("serve_relays.txt");
}

#[test]
fn id_3_keys_that_are_not_there_are_named() {
    check("serve_keys.txt");
}

#[test]
fn ui_5_wrong_limits_are_refused() {
    check("serve_limits.txt");
}

#[test]
fn ks_5_wrong_triggers_are_refused() {
    check("serve_triggers.txt");
}

#[test]
fn st_1_wrong_retention_is_refused() {
    check("serve_retention.txt");
}

#[test]
fn ui_5_wrong_variables_are_refused_by_name() {
    check("serve_variables.txt");
}

const KEYS: &[&str] = &[
    "listen",
    "listen__data",
    "data_dir",
    "tls",
    "tls__key",
    "behind_tls_proxy",
    "providers",
    "providers__x",
    "providers__openai__base_url",
    "providers__x__protocol",
    "providers__openai__http",
    "providers__openai__auth",
    "providers__openai__api_key_env",
    "relays",
    "relays__x",
    "relays__x__in",
    "relays__x__kind",
    "relays__x__agent",
    "relays__x__secret_path_env",
    "require_keys",
    "limits",
    "limits__body_bytes",
    "limits__connect_timeout_s",
    "preset",
    "preset__x",
    "policy",
    "policy__exempt_tools",
    "policy__budget__usd_per_day",
    "policy__guards__loop",
    "policy__allowed_hours__from",
    "circuit_breakers__roles__pm",
    "circuit_breakers__defaults__max_turns",
    "gate",
    "agents",
    "agents__coder",
    "agents__coder__role",
    "agents__coder__key_env",
    "agents__coder__policy__profile",
    "x__y",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ui_5_any_value_from_anywhere_is_answered(
        key in proptest::sample::select(KEYS),
        value in "\\PC{0,12}|\\{[a-z]{1,5}: [a-z0-9]{0,3}\\}|[a-z0-9:./\\[\\]-]{1,12}",
        below in proptest::sample::select(&["", "agents: {coder: }", "{providers: {x: {base_url: 'https://x'}}, policy: }"][..]),
    ) {
        let (open, close) = (key.replace("__", ": {"), "}".repeat(key.matches("__").count()));
        let variable = format!("ESTOP_{}", key.to_uppercase());
        let in_file = estop_config::parse_serve(&format!("{{{open}: {value:?}{close}}}"), "estop.yaml", &Env::default());
        let in_env = estop_config::parse_serve(below, "estop.yaml", &[(variable, value)].into_iter().collect());
        for answer in [in_file, in_env] {
            if let Err(error) = answer {
                let message = error.to_string();
                let has_place = ["estop.yaml:", "environment variable ESTOP_"].iter().any(|place| message.starts_with(place));
                prop_assert!(has_place && message.lines().count() <= 4, "{}", message);
                prop_assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{:?}", message);
            }
        }
    }
}
