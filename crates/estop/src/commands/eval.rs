//! `estop eval TRACES…`: recorded traces through the shipped detector (LD-7).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_core::policy::{Mode, Policy};
use serde::Serialize;

use super::Exit;
use crate::config;
use crate::journal_writer::JournalWriter;
use crate::lines::Lines;
use crate::trace::{Label, Trace};
use crate::trace_run::{Run, Stopped, run};

/// Judge recorded traces and say what would have been stopped
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files with one trace a line
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Judge by this policy instead of the defaults with the loop guard switched on
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Write every event and decision to this journal
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// List every trace with its outcome
    #[arg(long)]
    list: bool,
}

/// The whole result; field names are stable (SPEC §13).
#[derive(Debug, Default, Serialize)]
struct Report {
    healthy: Healthy,
    loops: Loops,
}

#[derive(Debug, Default, Serialize)]
struct Healthy {
    total: usize,
    false_kills: usize,
    ids: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Loops {
    total: usize,
    found: usize,
    by_class: BTreeMap<String, Class>,
    median_repeats: Option<usize>,
    /// Share of the steps of found loops that were not made.
    saved_share: f64,
    missed_ids: Vec<String>,
    #[serde(skip)]
    repeats: Vec<usize>,
    #[serde(skip)]
    saved: (usize, usize),
}

#[derive(Debug, Default, Serialize)]
struct Class {
    total: usize,
    found: usize,
    max_repeats: Option<usize>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let policy = policy(args.policy.as_deref())?;
    let mut journal = args.journal.as_deref().map(JournalWriter::create).transpose()?;
    let mut report = Report::default();
    for path in &args.traces {
        let mut lines = Lines::open(path, "judging")?;
        while let Some((number, line)) = lines.next_line()? {
            let trace: Trace = serde_json::from_slice(line)
                .with_context(|| format!("{}:{number}: this line is not a trace", path.display()))?;
            let outcome = run(&trace, &policy, journal.as_mut());
            if args.list {
                list(&trace, &outcome)?;
            }
            report.add(&trace, &outcome);
        }
    }
    if let Some(journal) = journal {
        journal.seal()?;
    }
    report.finish();
    print(&report, args.json)?;
    Ok(Exit::Fine)
}

/// What a user gets who switches the loop guard on, or the policy of a file.
fn policy(file: Option<&Path>) -> anyhow::Result<Policy> {
    let Some(path) = file else {
        let mut policy = Policy::default();
        policy.modes.loops = Mode::Enforce;
        return Ok(policy);
    };
    let file = config::load(path)?;
    Ok(file.resolve(None, None))
}

fn list(trace: &Trace, run: &Run) -> std::io::Result<()> {
    let label = match trace.label {
        Label::Healthy => "healthy",
        Label::Loop => "loop",
    };
    let (mut out, id, steps) = (std::io::stdout().lock(), &trace.id, run.steps);
    match &run.stopped {
        Some(Stopped { step, repeats, reason }) => {
            writeln!(
                out,
                "{label:8} {id}: stopped before step {step} of {steps}, after {repeats} repeats. {reason}"
            )
        }
        None => writeln!(out, "{label:8} {id}: ran through all {steps} steps."),
    }
}

impl Report {
    fn add(&mut self, trace: &Trace, run: &Run) {
        match trace.label {
            Label::Healthy => self.healthy.add(trace, run),
            Label::Loop => self.loops.add(trace, run),
        }
    }

    fn finish(&mut self) {
        let repeats = &mut self.loops.repeats;
        repeats.sort_unstable();
        self.loops.median_repeats = repeats.get(repeats.len() / 2).copied();
        let (saved, steps) = self.loops.saved;
        self.loops.saved_share = if steps == 0 { 0.0 } else { saved as f64 / steps as f64 };
    }
}

impl Healthy {
    fn add(&mut self, trace: &Trace, run: &Run) {
        self.total += 1;
        if run.stopped.is_some() {
            self.false_kills += 1;
            self.ids.push(trace.id.clone());
        }
    }
}

impl Loops {
    fn add(&mut self, trace: &Trace, run: &Run) {
        let known = trace.meta.repetition.as_ref();
        let class = self.by_class.entry(known.map_or("other", |r| &r.kind).to_owned()).or_default();
        self.total += 1;
        class.total += 1;
        // A stop before the loop began found something else.
        let start = known.map_or(0, |r| r.start);
        let Some(stop) = run.stopped.as_ref().filter(|stop| stop.step > start) else {
            self.missed_ids.push(trace.id.clone());
            return;
        };
        self.found += 1;
        class.found += 1;
        class.max_repeats = class.max_repeats.max(Some(stop.repeats));
        self.repeats.push(stop.repeats);
        self.saved.0 += run.steps - stop.step;
        self.saved.1 += run.steps;
    }
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    let percent = |part: usize, whole: usize| format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64);
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header(["traces", "total", "stopped", "share", "most repeats before the stop"]);
    let Healthy { total, false_kills, ids } = &report.healthy;
    table.add_row([
        "healthy",
        &total.to_string(),
        &false_kills.to_string(),
        &percent(*false_kills, *total),
        "–",
    ]);
    for (name, class) in &report.loops.by_class {
        let repeats = class.max_repeats.map_or("–".to_owned(), |r| r.to_string());
        let share = percent(class.found, class.total);
        table.add_row([
            &format!("loop: {name}"),
            &class.total.to_string(),
            &class.found.to_string(),
            &share,
            &repeats,
        ]);
    }
    let loops = &report.loops;
    table.add_row([
        "all loops",
        &loops.total.to_string(),
        &loops.found.to_string(),
        &percent(loops.found, loops.total),
        "",
    ]);
    writeln!(out, "{table}")?;
    if let Some(median) = loops.median_repeats {
        writeln!(
            out,
            "Median repeats before the stop: {median}. Steps saved in stopped loops: {:.0} %.",
            100.0 * loops.saved_share
        )?;
    }
    for id in ids {
        writeln!(out, "Healthy trace that would be stopped: {id}")?;
    }
    Ok(())
}
