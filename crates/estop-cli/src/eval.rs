//! `estop eval TRACES…`: recorded traces through the shipped detector (LD-7).

mod report;
mod steps;
mod study;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use estop_config::printable::escaped;
use estop_core::guard::Guard;
use estop_core::policy::{Mode, Policy};
use estop_core::policy_file::PolicyFile;
use estop_core::run::test_command::TestRunners;
use estop_journal::is_agent_name;

use super::{Exit, say, say_json};
use crate::journal_writer::JournalWriter;
use crate::lines::Lines;
use crate::trace::Trace;
use crate::trace_run::run;
use report::{Listed, Report};

/// Judge recorded traces and say what would have been stopped
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files with one trace a line, in OpenAI chat format
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
    /// Print a study in Markdown: the rules alone and together, without times, and each family by what the others taught
    #[arg(long, conflicts_with_all = ["json", "policy", "journal", "list", "steps"])]
    report: bool,
    /// Show each step of one trace: what it brought, and how far it was from a stop
    #[arg(long, value_name = "ID", conflicts_with = "json")]
    steps: Option<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    if args.report {
        say(&study::report(&args.traces)?)?;
        return Ok(Exit::Fine);
    }
    let rules = Rules::load(args.policy.as_deref())?;
    let files = args.traces.iter().map(|path| Lines::open(path, "judging"));
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let mut journal = args.journal.as_deref().map(JournalWriter::create).transpose()?;
    let mut names = Names::default();
    let mut report = Report::default();
    for mut lines in files {
        let path = lines.path().display().to_string();
        while let Some((number, line)) = lines.next_line()? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let place = format!("{path}:{number}");
            let trace = Trace::parse(line).with_context(|| place.clone())?;
            if journal.is_some() {
                names.take(&trace.id, place)?;
            }
            let policy = rules.of(trace.agent());
            let runners = runners(&policy)?;
            let run = run(&trace, &policy, &runners, journal.as_mut());
            if args.steps.as_deref() == Some(trace.id.as_str()) {
                say(&steps::table(&trace, &run, &runners))?;
            }
            report.add(&trace, &run);
            match args.list {
                true if args.json => report.list(Listed::new(&trace, run)),
                true => say(&Listed::new(&trace, run).to_string())?,
                false => {}
            }
        }
    }
    if let Some(journal) = journal {
        journal.seal()?;
    }
    report.finish();
    if args.json {
        say_json(&report)?;
    } else {
        say(&report.text())?;
    }
    Ok(Exit::Fine)
}

/// By which rules each trace is judged.
enum Rules {
    /// What a user gets who switches the loop guard on.
    LoopGuardOn,
    File(Box<PolicyFile>),
}

impl Rules {
    fn load(file: Option<&Path>) -> anyhow::Result<Rules> {
        Ok(match file {
            Some(path) => Rules::File(Box::new(estop_config::load(path)?)),
            None => Rules::LoopGuardOn,
        })
    }

    fn of(&self, agent: &str) -> Policy {
        match self {
            Rules::File(file) => file.resolve(Some(agent), None),
            Rules::LoopGuardOn => loop_guard_on(),
        }
    }
}

/// What a user gets who switches the loop guard on.
fn loop_guard_on() -> Policy {
    let mut policy = Policy::default();
    policy.modes[Guard::Loop] = Mode::Enforce;
    policy
}

fn runners(policy: &Policy) -> anyhow::Result<TestRunners> {
    let extra: Vec<String> = policy.limits.test_runners.iter().map(ToString::to_string).collect();
    Ok(TestRunners::new(&extra)?)
}

/// In a journal each trace is an agent: two of one name would be judged as one.
#[derive(Default)]
struct Names {
    /// With the place of its trace.
    taken: BTreeMap<String, String>,
}

impl Names {
    fn take(&mut self, id: &str, place: String) -> anyhow::Result<()> {
        let shown = escaped(id);
        anyhow::ensure!(
            is_agent_name(id),
            "{place}: the id `{shown}` cannot stand in a journal: it is empty or the name of the journal's own chain"
        );
        if let Some(before) = self.taken.get(id) {
            anyhow::bail!(
                "{place}: the id `{shown}` was used at {before} already; in a journal each trace needs its own"
            );
        }
        self.taken.insert(id.to_owned(), place);
        Ok(())
    }
}
