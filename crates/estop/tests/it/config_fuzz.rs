//! Whatever a file holds, reading it ends in a policy or in one message.

use proptest::prelude::*;

/// Reads, resolves and shows; nothing may panic.
fn read(text: &str) {
    match estop_config::parse(text, "estop.yaml") {
        Ok(file) => drop(file.resolve(Some("coder"), Some("pm"))),
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("estop.yaml:"), "{message}");
            assert!(message.lines().count() <= 4, "{message}");
            assert!(!message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
        }
    }
}

/// Pieces of real files, put together at random: far more often almost right than random text.
fn fragment() -> impl Strategy<Value = String> {
    let words = "policy|agents|coder|circuit_breakers|defaults|roles|pm|gate|watchdog|preset|budget|usd_per_day|\
        allowed_hours|from|to|days|timezone|guards|loop|limits|max_turns|off|strict|true|0|-1|1.5|.nan|.inf|1e999|\
        08:00|24:00|mon|Europe/Berlin|Utc|exempt_tools|kill_switch_enabled|kill_switch_threshold|~|!!str|&a|*a|<<|é|\u{feff}";
    let word = proptest::sample::select(words.split('|').collect::<Vec<_>>());
    let glue = proptest::sample::select(vec![
        ": ", ":\n  ", ":\n    ", "\n", "\n  ", ", ", "{", "}", "[", "]", "\"", "- ", "\t", "\r", "# ",
    ]);
    proptest::collection::vec((word, glue), 0..24)
        .prop_map(|parts| parts.into_iter().flat_map(|(word, glue)| [word, glue]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ui_5_any_text_is_answered(text in any::<String>()) {
        read(&text);
    }

    #[test]
    fn ui_5_any_almost_right_file_is_answered(text in fragment()) {
        read(&text);
    }

    #[test]
    fn ui_5_any_value_of_any_key_is_answered(
        key in proptest::sample::select(vec![
            "preset", "policy", "policy.kill_switch_threshold", "policy.exempt_tools", "policy.budget.usd_per_day",
            "policy.budget.timezone", "policy.allowed_hours.days", "policy.allowed_hours.from", "policy.guards.loop",
            "circuit_breakers.defaults.max_turns", "circuit_breakers.roles.pm", "gate.recovery_rate", "agents.coder.role",
        ]),
        value in "\\PC{0,12}",
    ) {
        let (open, close) = (key.replace('.', ": {"), "}".repeat(key.matches('.').count()));
        read(&format!("{{{open}: {value}{close}}}"));
        read(&format!("{{{open}: {value:?}{close}}}"));
    }

    #[test]
    fn po_2_decimals_are_exact(micro in 1_u64..=100_000_000_000_000) {
        let usd = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
        let file = estop_config::parse(&format!("policy: {{budget: {{usd_per_day: {usd}}}}}"), "estop.yaml").expect("a budget");
        let nano = file.resolve(None, None).budget.usd_per_day.expect("is set").0;
        prop_assert_eq!(nano, micro * 1000);
    }
}
