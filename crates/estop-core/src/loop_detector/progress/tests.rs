//! Progress as small agents make it: what is a loop, at which step, and what is none.

use super::*;
use crate::fingerprint::{RequestFingerprint, RequestText, StepText, ended_by_text};
use crate::loop_detector::step::steps_of;

/// An agent that makes a step each few seconds.
struct Agent {
    progress: Progress,
    policy: LoopPolicy,
    now: u64,
}

impl Agent {
    fn new() -> Agent {
        Agent { progress: Progress::default(), policy: LoopPolicy::default(), now: 1 }
    }

    /// The rule that holds after a step.
    fn step(&mut self, tool: &str, args: &str, result: &str) -> Option<Repetition> {
        self.after(5_000, tool, args, result)
    }

    fn after(&mut self, ms: u64, tool: &str, args: &str, result: &str) -> Option<Repetition> {
        self.now += ms;
        let step = StepText { tool, args, result, ended: ended_by_text(result) };
        let print = RequestFingerprint::of(&RequestText { steps: vec![step], ..RequestText::default() });
        self.observe(&print)
    }

    fn observe(&mut self, print: &RequestFingerprint) -> Option<Repetition> {
        let observed = Observed {
            now: Millis(self.now),
            asked: None,
            asked_words: None,
            ask: print.ask,
            steps: &steps_of(print, &self.policy),
            prints: print.steps.iter().collect(),
            exempt: Vec::new(),
            is_request: true,
            can_nudge: true,
        };
        self.progress.observe(&observed, &self.policy).found.map(|(_, rule)| rule)
    }
}

#[test]
fn ld_8_the_same_call_with_the_same_result_is_a_loop_at_the_fifth() {
    let mut agent = Agent::new();
    let rules: Vec<_> = (0..5).map(|_| agent.step("run", r#"{"cmd":"make"}"#, "ok, 3 targets")).collect();
    assert_eq!(rules[..4], [None; 4]);
    assert_eq!(rules[4], Some(Repetition::BackToBack { period: 1, repeats: 5 }));
}

#[test]
fn ld_8_equal_answers_to_different_inputs_are_no_evidence() {
    let mut agent = Agent::new();
    for n in 0..40 {
        let args = format!(r#"{{"job":"load","partition":"2026-01-{n:02}"}}"#);
        assert_eq!(agent.step("run_job", &args, "OK"), None, "{n}");
    }
}

#[test]
fn ld_8_equal_failures_of_different_inputs_are_some() {
    let mut agent = Agent::new();
    let stopped = (0..30).position(|n| {
        let args = format!(r#"{{"query":"charter of the bank, try {n}"}}"#);
        agent.step("search", &args, r#"{"results": []}"#).is_some()
    });
    assert!(stopped.is_some_and(|at| (8..20).contains(&at)), "{stopped:?}");
}

#[test]
fn ld_8_news_in_between_spares_a_check_that_never_changes() {
    let mut agent = Agent::new();
    for n in 0..30 {
        let edit = format!(r#"{{"file":"src/part{n}.rs","text":"fn part{n}() {{}}"}}"#);
        assert_eq!(agent.step("edit", &edit, "done"), None);
        assert_eq!(agent.step("sh", r#"{"cmd":"cargo check"}"#, ""), None, "{n}");
    }
}

#[test]
fn ld_8_a_timer_or_a_wait_in_between_is_no_loop() {
    let mut agent = Agent::new();
    for n in 0..60 {
        assert_eq!(agent.after(60_000, "check", "{}", "all 6 services are up"), None, "{n}");
    }
    let mut agent = Agent::new();
    for n in 0..12 {
        assert_eq!(agent.step("sh", r#"{"cmd":"sleep 20; kubectl get pods"}"#, "0/3 ready"), None, "{n}");
    }
}

/// A slow check that fails, and a poll of what is not ready yet, look alike: neither is spared, and neither is stopped at once.
#[test]
fn ld_8_a_call_that_fails_slowly_counts_less() {
    let mut agent = Agent::new();
    let rules: Vec<_> = (0..12)
        .map(|_| agent.after(90_000, "sh", r#"{"cmd":"gh pr checks 7"}"#, "exit code: 8\nunit pending"))
        .collect();
    let stopped = rules.iter().position(Option::is_some);
    assert_eq!(stopped, Some(6), "{rules:?}");
}

/// Cline, Roo and OpenHands write their calls as elements of the answer.
#[test]
fn ld_8_other_calls_in_text_are_other_inputs() {
    let call = |n: u32| {
        format!("Next.\n\n<execute_command>\n<command>migrate -to {n}</command>\n</execute_command>")
    };
    let mut agent = Agent::new();
    for n in 0..40 {
        assert_eq!(agent.step("", &call(n), "[execute_command] Result:\nApplied 1 migration."), None, "{n}");
    }
    let mut agent = Agent::new();
    let stopped =
        (0..9).position(|_| agent.step("", &call(1), "[execute_command] Result:\nApplied 1.").is_some());
    assert_eq!(stopped, Some(4));
}

#[test]
fn ld_8_edits_that_change_nothing_about_a_failure_wear_off() {
    let mut agent = Agent::new();
    let stopped = (0..40).position(|n| {
        let edit = format!(r#"{{"file":"src/part{n}.rs","text":"fn part{n}() {{}}"}}"#);
        let edited = agent.step("edit", &edit, "done");
        let failed = agent.step("sh", r#"{"cmd":"cargo test"}"#, "error[E0308]: mismatched types in lib.rs");
        edited.or(failed).is_some()
    });
    assert!(stopped.is_some_and(|rounds| (6..12).contains(&rounds)), "{stopped:?}");
}

#[test]
fn ld_8_a_number_that_moves_is_progress_for_a_while() {
    let mut agent = Agent::new();
    let stopped = (0..60).position(|n| agent.step("sh", r#"{"cmd":"date +%S"}"#, &n.to_string()).is_some());
    assert_eq!(stopped, Some(19), "LD-6 c: twenty times");
    let mut agent = Agent::new();
    for n in 0..60 {
        assert_eq!(agent.after(45_000, "get_job", "{}", &format!("{n} % done")), None, "{n}");
    }
}

#[test]
fn ld_8_news_of_a_tool_that_repeats_on_purpose_are_news() {
    let mut agent = Agent::new();
    // Three words of letters alone, others each time.
    let log_line = |n: u8| ["a", "b", "c"].map(|word| word.repeat(usize::from(n) + 2)).join(" ");
    for n in 0..20 {
        let log = StepText { tool: "tail", args: "{}", result: &log_line(n), ended: ended_by_text("") };
        let log = RequestFingerprint::of(&RequestText { steps: vec![log], ..RequestText::default() });
        let check = StepText { tool: "check", args: "{}", result: "not yet", ended: ended_by_text("") };
        let check = RequestFingerprint::of(&RequestText { steps: vec![check], ..RequestText::default() });
        agent.now += 5_000;
        let observed = Observed {
            now: Millis(agent.now),
            asked: None,
            asked_words: None,
            ask: check.ask,
            steps: &steps_of(&check, &agent.policy),
            prints: check.steps.iter().collect(),
            exempt: log.steps.iter().collect(),
            is_request: true,
            can_nudge: true,
        };
        let found = agent.progress.observe(&observed, &agent.policy).found;
        assert_eq!(found, None, "{n}");
    }
}

#[test]
fn ld_8_a_text_written_again_under_another_name_is_nothing_new() {
    let report =
        "The nightly job reads all orders, joins them with the customers and writes a summary. ".repeat(6);
    let mut agent = Agent::new();
    let stopped = (0..30).position(|n| {
        let args = format!(r#"{{"path":"report_v{n}.md","text":"{report}"}}"#);
        agent.step("write", &args, "File created.").is_some()
    });
    assert!(stopped.is_some_and(|at| at < 12), "{stopped:?}");
}

#[test]
fn ld_8_thousands_of_equal_steps_in_shadow_end_with_the_first_news() {
    for wild in [0, u32::MAX] {
        let mut agent = Agent::new();
        agent.progress.score = wild;
        let last = (0..3_000).map(|_| agent.step("get", "{}", "the same")).last();
        assert!(last.is_some_and(|rule| rule.is_some()));
        agent.progress.score = wild;
        assert_eq!(agent.observe(&RequestFingerprint::default()), None, "without a step");
        assert_eq!(agent.step("get", r#"{"of":1}"#, "entirely different words came back"), None);
    }
}

#[test]
fn ld_8_calls_made_at_once_are_one_step_on_the_way() {
    let mut agent = Agent::new();
    let searches: Vec<String> = (0..12).map(|n| format!(r#"{{"pattern":"symbol{n}"}}"#)).collect();
    let step = |args| StepText { tool: "grep", args, result: "[]", ended: ended_by_text("[]") };
    let text =
        RequestText { steps: searches.iter().map(|args| step(args)).collect(), ..RequestText::default() };
    let print = RequestFingerprint::of(&text);
    assert_eq!(agent.observe(&print), None);
}

#[test]
fn ld_8_a_conversation_takes_at_most_four_kilobytes() {
    assert!(size_of::<Progress>() <= 4_096, "{}", size_of::<Progress>());
}

#[test]
fn ld_8_words_alone_are_no_wait() {
    let mut agent = Agent::new();
    let stopped =
        (0..20).position(|_| agent.after(200, "sh", r#"{"cmd":"git status # sleep 30"}"#, "clean").is_some());
    assert_eq!(stopped, Some(4));
}

#[test]
fn ld_8_records_that_differ_in_numbers_are_other_inputs() {
    let mut agent = Agent::new();
    for n in 0..40 {
        let about =
            "the customer paid by card and wants the invoice sent to the usual address of the company "
                .repeat(5);
        let args = format!(
            r#"{{"id":{n},"date":"2026-{:02}-{:02}","amount":"{}.{:02}","text":"{about}"}}"#,
            n % 12,
            n % 28,
            100 + n,
            n
        );
        assert_eq!(agent.step("create", &args, r#"{"status":"created"}"#), None, "{n}");
    }
}

#[test]
fn ld_8_a_failing_tool_that_repeats_on_purpose_takes_nothing_from_others() {
    let mut agent = Agent::new();
    for n in 0..30 {
        let args = format!(r#"{{"file":"src/part{n}.rs"}}"#);
        let edit = print_of("edit", &args, "done");
        let status = print_of("ci_status", "{}", "error: build failed");
        agent.now += 5_000;
        let observed = Observed {
            now: Millis(agent.now),
            asked: None,
            asked_words: None,
            ask: edit.ask,
            steps: &steps_of(&edit, &agent.policy),
            prints: edit.steps.iter().collect(),
            exempt: status.steps.iter().collect(),
            is_request: true,
            can_nudge: true,
        };
        assert_eq!(agent.progress.observe(&observed, &agent.policy).found, None, "{n}");
    }
}

fn print_of(tool: &str, args: &str, result: &str) -> RequestFingerprint {
    let step = StepText { tool, args, result, ended: ended_by_text(result) };
    RequestFingerprint::of(&RequestText { steps: vec![step], ..RequestText::default() })
}
