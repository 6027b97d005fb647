//! What a policy file must not say, and what the user is told. The cases are in `tests/it/config/*.txt`:
//! `## title`, the file, `>>>`, the message. `ESTOP_BLESS=1` writes the messages anew, for review.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn check(cases_file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/config").join(cases_file);
    let text = fs::read_to_string(&path).expect("the cases are in the repository");
    let mut cases = text.split("## ");
    let mut answers = cases.next().expect("split gives at least one part").to_owned();
    for case in cases {
        let (title, rest) = case.split_once('\n').expect("a title line");
        let (yaml, _) = rest.split_once(">>>\n").expect("a >>> line");
        let answer = match estop_config::parse(yaml, "estop.yaml") {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        write!(answers, "## {title}\n{yaml}>>>\n{answer}\n\n").expect("writing to a string");
    }
    let answers = format!("{}\n", answers.trim_end());
    if std::env::var_os("ESTOP_BLESS").is_some() {
        fs::write(&path, &answers).expect("the cases are writable");
    }
    assert_eq!(answers, text, "{cases_file}: run with ESTOP_BLESS=1 and review the difference");
}

#[test]
fn cb_1_a_limit_is_a_positive_number_or_off() {
    check("cb_1_limits.txt");
}

#[test]
fn ld_2_loop_settings_keep_their_ranges_and_do_not_contradict_each_other() {
    check("ld_2_loop.txt");
}

#[test]
fn po_2_budgets_are_exact_positive_amounts() {
    check("po_2_budget.txt");
}

#[test]
fn po_3_hours_and_rates_make_sense() {
    check("po_3_hours_and_rates.txt");
}

#[test]
fn po_4_guards_have_three_modes() {
    check("po_4_guards.txt");
}

#[test]
fn tw_4_gate_numbers_agree_with_each_other() {
    check("tw_4_gate.txt");
}

#[test]
fn ui_5_wrong_keys_are_refused_with_line_and_suggestion() {
    check("ui_5_keys.txt");
}

#[test]
fn ui_5_wrong_yaml_is_refused_with_its_line() {
    check("ui_5_yaml.txt");
}

#[test]
fn st_3_lists_of_tools_are_bounded() {
    for key in ["exempt_tools", "wrap_up_tools"] {
        let refused = |tools: &str| {
            let yaml = format!("policy: {{{key}: [{tools}]}}\n");
            estop_config::parse(&yaml, "estop.yaml").err().map(|error| error.to_string())
        };
        let many = |count: usize| (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>().join(", ");
        assert_eq!(refused(&many(100)), None, "{key}");
        let said = refused(&many(101)).expect("too many");
        assert!(said.contains(key) && said.contains("101 tools are listed; at most 100"), "{said}");
        let said = refused(&"x".repeat(129)).expect("too long");
        assert!(said.contains("1 to 128 characters"), "{said}");
    }
}

#[test]
fn ui_5_aliases_cannot_blow_up_the_reader() {
    let mut yaml = "agents:\n  a0: &a0 {policy: {exempt_tools: [x, x, x, x, x, x, x, x, x, x]}}\n".to_owned();
    for level in 1..9 {
        let below = format!("*a{}", level - 1);
        writeln!(yaml, "  a{level}: &a{level} [{}]", [below.as_str(); 10].join(", "))
            .expect("writing to a string");
    }
    let too_large = "too deeply nested, or too large once its aliases are filled in";
    let refused = estop_config::parse(&yaml, "estop.yaml").expect_err("a bomb is refused").to_string();
    assert!(refused.contains(too_large), "{refused}");

    // Twenty thousand uses of one anchor, each of the right type.
    let many = ["*t"; 20_000].join(", ");
    let yaml = format!("agents: {{a: {{role: &t x}}}}\npolicy: {{exempt_tools: [{many}]}}\n");
    let refused = estop_config::parse(&yaml, "estop.yaml").expect_err("too many aliases").to_string();
    assert!(refused.contains(too_large), "{refused}");
}
