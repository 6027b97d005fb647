//! SE-1 for everything in this crate that reads foreign text: steps are counted on patterns made of all that each reader
//! knows, repeated, and may grow no faster than the text.

use super::{NotLinear, add, counted, found, growth, growth_from, patterns};
use crate::ended::{Ended, ended_by_text};
use crate::fingerprint::arguments::first_of;
use crate::fingerprint::normalize::{ADVERSARIAL, normalize};
use crate::fingerprint::{
    RequestFingerprint, RequestText, ResponseFingerprint, ResponseText, StepFingerprint, StepText, signature,
    simhash, volatile,
};
use crate::loop_detector::chant::ChantDetector;
use crate::policy::pattern;
use crate::prices::PriceTable;
use crate::run::report_tool::reported;
use crate::run::test_command::{self, TestRunners, is_shell_tool, says_passed};

const LINEAR: Result<(), NotLinear> = Ok(());

/// What was read is of no interest.
fn done<T>(_: T) {}

/// What ends, opens or joins something for any of the readers.
const MARKS: [&str; 28] = [
    " ", "\n", "\r\n", "\t", "\"", "'", "`", ":", "=", ",", ";", "(", ")", "[", "]", "{", "}", "<", ">", "-",
    "_", ".", "+", "\\", "/", "|", "&", "$",
];

/// The count finds the fault it is there for: a search to the end of the text for each key that it meets.
#[test]
fn se_1_a_reader_that_is_not_linear_is_found_out() {
    let read = |text: &str| {
        let mut rest = text;
        while let Some(at) = found(rest.find("=("), rest.len()) {
            rest = &rest[at + 2..];
            let _ = found(rest.find([')', '\n']), rest.len());
            add(1);
        }
    };
    assert_eq!(growth(&["id ".to_owned(), "id=(a)".to_owned()], 24, read), LINEAR);
    assert!(growth(&["id=(,".to_owned()], u64::MAX / LONG, read).is_err());
}

/// Bytes of the longest text.
const LONG: u64 = 1 << 21;

#[test]
fn se_1_taking_out_what_is_volatile_is_linear() {
    let mut all = patterns(&MARKS);
    let joints = ["=", ":", "\":", "\": \"", "=\"", "='", ": ", "=(", ":(", "=(,", "=(;", "=[", "={", "=(\""];
    for key in volatile::VOLATILE_KEYS {
        all.extend(joints.iter().map(|joint| format!("{key}{joint}")));
        all.extend(MARKS.iter().map(|mark| format!("{key}=(x{mark}")));
    }
    let begun = [
        "1",
        "12:00:00,",
        "2024-01-15",
        "550e8400-e29b-41d4-a716-446655440000",
        "a1b2c3d4",
        "1.5",
        "é",
        "created-",
    ];
    let units = volatile::DURATION_UNITS.iter().copied();
    let words: Vec<&str> = begun.into_iter().chain(units).chain(["-", ".", ":", " ", ","]).collect();
    all.extend(patterns(&words));
    let linear = growth(&all, volatile::STEPS_PER_BYTE_MAX, |text| done(volatile::strip(text)));
    assert_eq!(linear, LINEAR);
}

#[test]
fn se_1_normalising_and_hashing_are_linear() {
    let units = ADVERSARIAL.iter().copied().chain(["<ID>", "<TS>", "<NUM>", "x", "g", "\u{3000}", "Z", "T"]);
    let all = patterns(&units.collect::<Vec<_>>());
    assert_eq!(growth(&all, 9, |text| done(normalize(text))), LINEAR);
    assert_eq!(growth(&all, 10, |text| done(simhash::simhash(text))), LINEAR);
    assert_eq!(growth(&all, 4, |text| done(simhash::simhash_exact(text))), LINEAR);
    assert_eq!(growth(&all, 13, |text| done(simhash::simhash_both(text))), LINEAR);
    assert_eq!(growth(&all, 10, |text| done(simhash::simhash_and_hash(text))), LINEAR);
}

/// What JSON is made of, right and wrong.
const JSON: [&str; 20] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud83d",
    "\"a\":",
    "\"command\":",
    "0,",
    "-",
    "1e5",
    "null,",
    "{},",
    "[],",
    " ",
    "\"\",",
];

#[test]
fn se_1_signatures_are_linear() {
    let mut all = patterns(&JSON);
    all.extend(patterns(&MARKS));
    all.extend(["```\n", "```", "``", "\n```", "```a\n", "\n<a_b>", "<a_b></a_b>"].map(String::from));
    assert_eq!(growth(&all, 8, |text| done(signature::action("t", text))), LINEAR);
    assert_eq!(growth(&all, 8, |text| done(signature::text_action(text))), LINEAR);
    let closed = |text: &str| format!("{text}</a_b>");
    assert_eq!(growth(&all, 8, |text| done(signature::text_action(&closed(text)))), LINEAR);
    assert_eq!(growth(&all, 32, |text| done(signature::result(text))), LINEAR);
    assert_eq!(growth(&all, 2, |text| done(ended_by_text(text))), LINEAR);
    assert_eq!(growth(&all, 7, |text| done(reported("report_complete", text))), LINEAR);
}

/// The same inside arguments that are JSON, as lists, objects with a key of its own for each value, and texts.
#[test]
fn se_1_arguments_that_are_json_are_linear() {
    let units: Vec<String> =
        ["0", "\"\"", "{}", "[]", "{\"command\":\"x\"}", "\"\\n\"", "1.5e3", "null"].map(String::from).into();
    let list = |unit: &str| format!("{{\"command\":[{}]}}", unit.trim_end_matches(','));
    let lists: Vec<String> = units.iter().map(|unit| format!("{unit},")).collect();
    let runners = TestRunners::default();
    assert_eq!(growth(&lists, 12, |text| done(signature::action("t", &list(text)))), LINEAR);
    assert_eq!(growth(&lists, 40, |text| done(runners.is_test_call("bash", &list(text)))), LINEAR);
    assert_eq!(growth(&lists, 12, |text| done(first_of(&list(text), &["x", "command"]))), LINEAR);
    let object = |text: &str| {
        let fields: Vec<String> = (0..text.len() / 12).map(|n| format!("\"k{n:06}\":0")).collect();
        format!("{{{}}}", fields.join(","))
    };
    let lengths = [String::from("x")];
    assert_eq!(growth(&lengths, 12, |text| done(signature::action("t", &object(text)))), LINEAR);
}

#[test]
fn se_1_shell_commands_are_read_in_linear_time() {
    let shell = [
        "\\",
        "'",
        "\"",
        "$",
        "$(",
        "${",
        "$'",
        "`",
        "#",
        "\n",
        ";",
        "|",
        "&",
        "&>",
        "<",
        ">",
        "<<",
        "<<-",
        "<<<",
        "<<A",
        "<<A\n",
        "A\n",
        "(",
        ")",
        "=(",
        "a=(",
        "a",
        " ",
        "1>",
        "{",
        "}",
        "!",
        "if ",
        "bash -c ",
        "bash -c '",
        "eval ",
        "sudo ",
        "env a=b ",
        "make ",
        "npm run ",
        "cargo ",
        "--",
        "-x ",
        "-- ",
        "timeout 1 ",
        "test ",
        "a=1 ",
    ];
    let all = patterns(&shell);
    let runners = TestRunners::default();
    assert_eq!(growth(&all, 120, |text| done(runners.is_test_run("bash", text))), LINEAR);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    assert_eq!(growth(&all, 120, |text| done(runners.is_test_run_argv("bash", &words(text)))), LINEAR);
    for runner in test_command::DEFAULT_TEST_RUNNERS {
        let (program, _) = runner.split_once(' ').unwrap_or((runner, ""));
        let pattern = [format!("-x {runner} ")];
        let command = |text: &str| format!("{program} {text}");
        assert_eq!(growth(&pattern, 120, |text| done(runners.is_test_run("bash", &command(text)))), LINEAR);
    }
    assert_eq!(growth(&all, 2, |text| done(is_shell_tool(text))), LINEAR);
    let said = [
        "FAIL",
        "test result: ok.",
        "1 passed",
        "passed:",
        " 1",
        "\n",
        ",",
        ".",
        "=",
        "failed",
        "error:",
        "ok  \t",
    ];
    assert_eq!(growth(&patterns(&said), 2, |text| done(says_passed(text))), LINEAR);
}

#[test]
fn se_1_chants_are_looked_for_in_linear_time() {
    let mut all =
        patterns(&["a", "b", "ab", "1", "12", " ", "\n", "```", "~~~", "`", ">", "é", "🙂", "null, "]);
    // Healthy text with stretches that nearly repeat: the detector follows, and is thrown off again and again.
    let near = |len: usize, breaks: &str| format!("{}{breaks}", "ab".repeat(len / 2));
    all.extend([254, 256, 300, 510, 511, 600, 1_000, 2_000].map(|len| near(len, "x")));
    all.extend((0..200).map(|n| format!("word{n} ")).collect::<Vec<_>>().chunks(50).map(<[String]>::concat));
    let read = |text: &str| done(ChantDetector::default().push(text));
    assert_eq!(growth_from(100_000, &all, 60, read), LINEAR);
    let by_char = |text: &str| {
        let mut detector = ChantDetector::default();
        text.chars().for_each(|c| done(detector.push(c.encode_utf8(&mut [0; 4]))));
    };
    assert_eq!(growth_from(100_000, &all, 60, by_char), LINEAR);
}

#[test]
fn se_1_models_are_looked_up_in_bounded_time() {
    let prefixes: Vec<String> =
        (0..500).map(|n| format!("\"gpt-5{}\"", "-a".repeat(n % 90) + &n.to_string())).collect();
    let price = r#""rates": {"input": 1, "output": 1}"#;
    let models = format!(r#"{{"ids": ["claude"], "prefixes": [{}], {price}}}"#, prefixes.join(","));
    let file =
        format!(r#"{{"as_of": "", "providers": {{"p": {{"strip": ["models/"], "models": [{models}]}}}}}}"#);
    let mut table = PriceTable::from_json(&file).expect("a file of prices");
    let own = table.find("p", "claude").expect("it has a price").clone();
    table.set_model("gpt-5", own);
    let pieces = [
        "-",
        "@",
        ":",
        "/",
        ".",
        "_",
        "gpt-5",
        "claude",
        "-latest",
        "-2025-01-01",
        "-20250101",
        "models/",
        "-a",
        "5",
    ];
    let all = patterns(&pieces);
    assert_eq!(growth(&all, 4, |text| done(table.find("p", text))), LINEAR);
    // Ids that are not too long to be looked up.
    for (pattern, len) in all.iter().flat_map(|pattern| (1..192).map(move |len| (pattern, len))) {
        let id = pattern.repeat(192);
        let id = id.get(..len).unwrap_or_default();
        let found =
            |id: &str| done((table.find("p", id), table.find("p", &format!("gpt-5{}", &id[..len.min(180)]))));
        let steps = counted(u64::MAX, || found(id));
        assert!(steps <= 4_000, "{steps} steps for {id:?}");
    }
    for pattern in ["*", "*-*-*-*", "gpt-*5", "*a*a*a*a*b", "*latest"] {
        assert_eq!(growth(&all, 64, |text| done(pattern::matches(pattern, text))), LINEAR);
    }
}

/// However long its texts are, a request takes no more work than its cap allows, and the hashes of texts as they are.
#[test]
fn ld_5_the_work_for_one_text_is_capped() {
    let steps = |len: usize| {
        let text = "id=(,7 ".repeat(len / 7);
        let step = StepText { tool: "t", args: &text, result: &text, ended: Ended::Unknown };
        let request = RequestText {
            system: &text,
            first_user: "a",
            last_user: &text,
            steps: vec![step],
            ..RequestText::default()
        };
        counted(u64::MAX, || {
            done(RequestFingerprint::of(&request));
            done(ResponseFingerprint::of(&ResponseText { text: &text, calls: vec![("t", &text, false)] }));
        })
    };
    let capped = steps(2 * signature::TEXT_BYTES_MAX);
    let more = steps(32 * signature::TEXT_BYTES_MAX) - capped;
    // Exact hashes go on, at eight bytes a step: of the arguments, twice, and of what was asked.
    assert!(more <= 30 * signature::TEXT_BYTES_MAX as u64 * 3 / 8 + 1_000, "{more} steps more");
}

/// The words of a step, the kind of its result, and a call's words among them (LD-8).
#[test]
fn se_1_telling_what_is_new_is_linear() {
    let pieces = [
        "error",
        "exit code",
        "status: 404",
        "\"error\":",
        "0 rows",
        "\nOutput:\n",
        "{\"output\": \"",
        "[]",
        "sleep 5",
        "\nAction:",
        "```",
        "a1b2c3d4e5",
        "é",
        " ",
    ];
    let all = patterns(&pieces);
    let of_result = |text: &str| {
        let step = StepText { tool: "t", args: "{\"path\": \"a\"}", result: text, ended: Ended::Unknown };
        done(StepFingerprint::result_of(&step));
    };
    assert_eq!(growth(&all, 96, of_result), LINEAR);
    let of_call = |text: &str| {
        let step = StepText { tool: "sleep", args: text, result: text, ended: ended_by_text(text) };
        done(StepFingerprint::of(&step));
    };
    assert_eq!(growth(&all, 160, of_call), LINEAR);
    let of_talk = |text: &str| {
        let step = StepText { tool: "", args: text, result: text, ended: Ended::Unknown };
        done(StepFingerprint::of(&step));
    };
    assert_eq!(growth(&all, 200, of_talk), LINEAR);
}
