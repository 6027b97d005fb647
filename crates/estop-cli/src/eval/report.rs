//! What `estop eval` found, for people and for machines.

use std::collections::BTreeMap;
use std::fmt;

use estop_config::printable::escaped;
use serde::Serialize;

use crate::trace::{Label, Trace};
use crate::trace_run::{Run, Stopped};

/// The whole result; field names are stable (SPEC §13).
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    healthy: Healthy,
    loops: Loops,
    unlabelled: Unlabelled,
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<Vec<Listed>>,
}

#[derive(Debug, Default, Serialize)]
struct Healthy {
    total: usize,
    false_kills: usize,
    ids: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_pattern: BTreeMap<String, Pattern>,
}

#[derive(Debug, Default, Serialize)]
struct Loops {
    total: usize,
    found: usize,
    /// Of those that say by which step they should be stopped.
    with_time: usize,
    in_time: usize,
    by_class: BTreeMap<String, Class>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_pattern: BTreeMap<String, Pattern>,
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

/// Traces that show one kind of work.
#[derive(Debug, Default, Serialize)]
struct Pattern {
    total: usize,
    stopped: usize,
    /// Of loops, how many were stopped in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_time: Option<usize>,
}

/// Traces of which nobody said what they are.
#[derive(Debug, Default, Serialize)]
struct Unlabelled {
    total: usize,
    stopped: usize,
    /// Of those that were stopped.
    ids: Vec<String>,
}

/// One trace with its outcome.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    id: String,
    label: Option<Label>,
    steps: usize,
    /// `None` if it ran through, as are the two below.
    stopped_after: Option<usize>,
    repeats: Option<usize>,
    reason: Option<String>,
}

impl Listed {
    pub(super) fn new(trace: &Trace, run: Run) -> Listed {
        let (id, label, steps) = (trace.id.clone(), trace.label, run.steps);
        let Some(Stopped { step, repeats, reason }) = run.stopped else {
            return Listed { id, label, steps, stopped_after: None, repeats: None, reason: None };
        };
        Listed { id, label, steps, stopped_after: Some(step), repeats: Some(repeats), reason: Some(reason) }
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.label {
            Some(Label::Healthy) => "healthy",
            Some(Label::Loop) => "loop",
            None => "–",
        };
        let (id, steps) = (escaped(&self.id), self.steps);
        let (Some(after), Some(reason)) = (self.stopped_after, &self.reason) else {
            return write!(f, "{label:8} {id}: ran through all {steps} steps.");
        };
        write!(f, "{label:8} {id}: stopped after {after} of {steps} steps")?;
        if let Some(repeats) = self.repeats.filter(|repeats| *repeats > 1) {
            write!(f, " and {repeats} repeats")?;
        }
        write!(f, ". {}", escaped(reason))
    }
}

impl Report {
    pub(super) fn add(&mut self, trace: &Trace, run: &Run) {
        match trace.label {
            Some(Label::Healthy) => self.healthy.add(trace, run),
            Some(Label::Loop) => self.loops.add(trace, run),
            None => self.unlabelled.add(trace, run),
        }
    }

    pub(super) fn list(&mut self, listed: Listed) {
        self.traces.get_or_insert_default().push(listed);
    }

    pub(super) fn finish(&mut self) {
        let repeats = &mut self.loops.repeats;
        repeats.sort_unstable();
        self.loops.median_repeats = repeats.get(repeats.len() / 2).copied();
        let (saved, steps) = self.loops.saved;
        self.loops.saved_share = if steps == 0 { 0.0 } else { saved as f64 / steps as f64 };
    }

    /// A table, and what stands out.
    pub(super) fn text(&self) -> String {
        let Report { healthy, loops, unlabelled, traces: _ } = self;
        if healthy.total + loops.total + unlabelled.total == 0 {
            return "No traces.".to_owned();
        }
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        table.set_header(["traces", "total", "stopped", "share", "in time", "most repeats before the stop"]);
        table.add_row(row("healthy", healthy.total, healthy.false_kills, None, "–"));
        for (name, pattern) in healthy.by_pattern.iter().filter(|(_, pattern)| pattern.stopped > 0) {
            table.add_row(row(&format!("  {}", escaped(name)), pattern.total, pattern.stopped, None, ""));
        }
        for (name, class) in &loops.by_class {
            let repeats = class.max_repeats.map_or("–".to_owned(), |r| r.to_string());
            table.add_row(row(&format!("loop: {}", escaped(name)), class.total, class.found, None, &repeats));
        }
        for (name, pattern) in &loops.by_pattern {
            let name = format!("  {}", escaped(name));
            table.add_row(row(&name, pattern.total, pattern.stopped, pattern.in_time, ""));
        }
        let in_time = (loops.with_time > 0).then_some(loops.in_time);
        table.add_row(row("all loops", loops.total, loops.found, in_time, ""));
        if unlabelled.total > 0 {
            table.add_row(row("unlabelled", unlabelled.total, unlabelled.stopped, None, ""));
        }
        let mut lines = vec![table.to_string()];
        if let Some(median) = loops.median_repeats {
            lines.push(format!(
                "Median repeats before the stop: {median}. Steps saved in stopped loops: {:.0} %.",
                100.0 * loops.saved_share
            ));
        }
        let named =
            |what: &'static str| move |id: &String| format!("{what} that would be stopped: {}", escaped(id));
        lines.extend(healthy.ids.iter().map(named("Healthy trace")));
        lines.extend(unlabelled.ids.iter().map(named("Unlabelled trace")));
        lines.join("\n")
    }
}

fn row(name: &str, total: usize, stopped: usize, in_time: Option<usize>, repeats: &str) -> [String; 6] {
    let share = format!("{:.0} %", 100.0 * stopped as f64 / total.max(1) as f64);
    let in_time = in_time.map_or_else(String::new, |count| count.to_string());
    [name.to_owned(), total.to_string(), stopped.to_string(), share, in_time, repeats.to_owned()]
}

impl Healthy {
    fn add(&mut self, trace: &Trace, run: &Run) {
        self.total += 1;
        if let Some(pattern) = trace.pattern() {
            let pattern = self.by_pattern.entry(pattern.to_owned()).or_default();
            pattern.total += 1;
            pattern.stopped += usize::from(run.stopped.is_some());
        }
        if run.stopped.is_some() {
            self.false_kills += 1;
            self.ids.push(trace.id.clone());
        }
    }
}

impl Loops {
    fn add(&mut self, trace: &Trace, run: &Run) {
        let known = trace.repetition();
        let class = self.by_class.entry(known.map_or("other", |r| &r.kind).to_owned()).or_default();
        self.total += 1;
        class.total += 1;
        // A stop before the loop began found something else.
        let start = known.map_or(0, |r| r.start);
        let found = run.stopped.as_ref().filter(|stop| stop.step >= start);
        let by = known.and_then(|r| r.by);
        let in_time = found.zip(by).is_some_and(|(stop, by)| stop.step <= by);
        self.with_time += usize::from(by.is_some());
        self.in_time += usize::from(in_time);
        if let Some(pattern) = trace.pattern() {
            let pattern = self.by_pattern.entry(pattern.to_owned()).or_default();
            pattern.total += 1;
            pattern.stopped += usize::from(found.is_some());
            *pattern.in_time.get_or_insert_default() += usize::from(in_time);
        }
        let Some(stop) = found else {
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

impl Unlabelled {
    fn add(&mut self, trace: &Trace, run: &Run) {
        self.total += 1;
        if run.stopped.is_some() {
            self.stopped += 1;
            self.ids.push(trace.id.clone());
        }
    }
}
