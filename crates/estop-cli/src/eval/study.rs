//! `estop eval --report`: what each rule adds, in Markdown, for `docs/detection.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use estop_core::policy::{LoopScore, Policy};
use estop_core::run::test_command::TestRunners;

use super::loop_guard_on;
use crate::lines::Lines;
use crate::trace::{Label, Trace};
use crate::trace_run::run;

/// Thresholds that a family is judged by, as the others choose.
const THRESHOLDS: [u16; 5] = [80, 100, 120, 150, 200];
/// At most so many of a hundred healthy runs may be stopped by what is chosen.
const FALSE_STOPS_PERCENT: usize = 1;

/// One way to judge.
struct Variant {
    name: &'static str,
    policy: Policy,
    with_times: bool,
}

fn variants() -> Vec<Variant> {
    let only = |name, keep: fn(&mut Policy)| {
        let mut policy = loop_guard_on();
        let loops = &mut policy.loops;
        (loops.back_to_back, loops.within_window, loops.nothing_new) = (false, false, false);
        loops.threshold_tenths = 500;
        keep(&mut policy);
        Variant { name, policy, with_times: true }
    };
    let mut literal = loop_guard_on();
    literal.loops.score = LoopScore::Literal;
    vec![
        Variant { name: "all rules", policy: loop_guard_on(), with_times: true },
        only("back to back alone", |policy| policy.loops.back_to_back = true),
        only("within a window alone", |policy| policy.loops.within_window = true),
        only("nothing new alone", |policy| {
            (policy.loops.nothing_new, policy.loops.threshold_tenths) = (true, 100);
        }),
        Variant { name: "all rules, times unknown", policy: loop_guard_on(), with_times: false },
        Variant { name: "`loop_score: literal`", policy: literal, with_times: true },
    ]
}

/// What became of some traces.
#[derive(Clone, Copy, Default)]
struct Tally {
    healthy: usize,
    stopped: usize,
    loops: usize,
    found: usize,
    in_time: usize,
    nudged: usize,
}

impl Tally {
    fn add(&mut self, trace: &Trace, policy: &Policy) {
        let run = run(trace, policy, &TestRunners::default(), None);
        self.nudged += usize::from(
            trace.label == Some(Label::Healthy)
                && run.seen.iter().any(|seen| seen.stretch.is_some_and(|stretch| stretch.nudge)),
        );
        match trace.label {
            Some(Label::Healthy) => {
                self.healthy += 1;
                self.stopped += usize::from(run.stopped.is_some());
            }
            Some(Label::Loop) => {
                let known = trace.repetition();
                let start = known.map_or(0, |r| r.start);
                let found = run.stopped.filter(|stop| stop.step >= start);
                let by = known.and_then(|r| r.by);
                self.loops += 1;
                self.found += usize::from(found.is_some());
                self.in_time += usize::from(found.zip(by).is_some_and(|(stop, by)| stop.step <= by));
            }
            None => {}
        }
    }

    fn plus(self, other: Tally) -> Tally {
        Tally {
            healthy: self.healthy + other.healthy,
            stopped: self.stopped + other.stopped,
            loops: self.loops + other.loops,
            found: self.found + other.found,
            in_time: self.in_time + other.in_time,
            nudged: self.nudged + other.nudged,
        }
    }
}

/// All of it.
pub(super) fn report(files: &[PathBuf]) -> anyhow::Result<String> {
    let variants = variants();
    let mut tallies = vec![Tally::default(); variants.len()];
    let mut patterns: BTreeMap<(bool, String), Tally> = BTreeMap::new();
    let mut families: BTreeMap<String, [Tally; THRESHOLDS.len()]> = BTreeMap::new();
    for path in files {
        let mut lines = Lines::open(path, "judging")?;
        while let Some((number, line)) = lines.next_line()? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut trace = Trace::parse(line).with_context(|| format!("{}:{number}", path.display()))?;
            let family = trace.family().unwrap_or("recorded").to_owned();
            for (tally, threshold) in families.entry(family).or_default().iter_mut().zip(THRESHOLDS) {
                let mut policy = loop_guard_on();
                policy.loops.threshold_tenths = threshold;
                tally.add(&trace, &policy);
            }
            for (tally, variant) in tallies.iter_mut().zip(&variants).filter(|(_, v)| v.with_times) {
                tally.add(&trace, &variant.policy);
            }
            let name = trace.pattern().unwrap_or("recorded").to_owned();
            let is_loop = trace.label == Some(Label::Loop);
            patterns.entry((is_loop, name)).or_default().add(&trace, &loop_guard_on());
            trace.forget_times();
            for (tally, variant) in tallies.iter_mut().zip(&variants).filter(|(_, v)| !v.with_times) {
                tally.add(&trace, &variant.policy);
            }
        }
    }
    Ok([rules(&variants, &tallies), by_pattern(&patterns), cross_validation(&families)].join("\n"))
}

fn rules(variants: &[Variant], tallies: &[Tally]) -> String {
    let mut out =
        "| rules | healthy stopped | healthy told | loops found | in time |\n|---|---|---|---|---|\n"
            .to_owned();
    for (variant, t) in variants.iter().zip(tallies) {
        let _ = writeln!(
            out,
            "| {} | {} of {} | {} | {} of {} | {} |",
            variant.name, t.stopped, t.healthy, t.nudged, t.found, t.loops, t.in_time
        );
    }
    out
}

/// Loops that are not all found, and healthy work that is stopped.
fn by_pattern(patterns: &BTreeMap<(bool, String), Tally>) -> String {
    let mut out = "| pattern | traces | stopped | in time |\n|---|---|---|---|\n".to_owned();
    for ((is_loop, name), t) in patterns {
        let _ = match is_loop {
            true if t.found < t.loops => {
                writeln!(out, "| loop: {name} | {} | {} | {} |", t.loops, t.found, t.in_time)
            }
            false if t.stopped > 0 => writeln!(out, "| healthy: {name} | {} | {} | |", t.healthy, t.stopped),
            true | false => Ok(()),
        };
    }
    out
}

/// Each family by the threshold that is best for all others: the most loops found with at most one healthy run of a hundred stopped.
fn cross_validation(families: &BTreeMap<String, [Tally; THRESHOLDS.len()]>) -> String {
    let mut out = "| family left out | threshold the others choose | healthy stopped | loops found | in time |\n|---|---|---|---|---|\n".to_owned();
    let mut all = Tally::default();
    for (family, own) in families {
        let others = |at: usize| {
            families
                .iter()
                .filter(|(name, _)| *name != family)
                .fold(Tally::default(), |sum, (_, t)| sum.plus(t[at]))
        };
        let is_good = |at: &usize| {
            let others = others(*at);
            others.stopped * 100 <= others.healthy * FALSE_STOPS_PERCENT
        };
        let best =
            (0..THRESHOLDS.len()).filter(is_good).max_by_key(|at| (others(*at).found, others(*at).in_time));
        let at = best.unwrap_or(THRESHOLDS.len() - 1);
        let t = own[at];
        all = all.plus(t);
        let _ = writeln!(
            out,
            "| {family} | {} | {} of {} | {} of {} | {} |",
            THRESHOLDS[at] / 10,
            t.stopped,
            t.healthy,
            t.found,
            t.loops,
            t.in_time
        );
    }
    let _ = writeln!(
        out,
        "| all | | {} of {} | {} of {} | {} |",
        all.stopped, all.healthy, all.found, all.loops, all.in_time
    );
    out
}
