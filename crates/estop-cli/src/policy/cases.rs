//! `estop policy test CASES`: recorded work under a configuration's rules, and what is expected of them (OB-3).

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use estop_config::printable::escaped;
use estop_config::{Env, read_yaml};
use estop_core::guard::Guard;
use estop_core::policy::Mode;
use estop_core::policy_file::PolicyFile;
use estop_core::run::test_command::TestRunners;
use estop_journal::{AgentOutcome, Backtest};
use serde::{Deserialize, Serialize};

use super::text_of;
use crate::journal::{JournalArgs, read};
use crate::lines::Lines;
use crate::trace::Trace;
use crate::trace_run::run;
use crate::{Exit, say, say_json};

const EXAMPLE: &str = "Cases name recorded work, as seen from their own folder, and what is expected:

  config: estop.yaml            # or --config; else the usual file
  cases:
    - name: a coder that asks the same again and again is refused
      traces: stuck.jsonl       # written by `estop record`; `id` picks one
      agent: coder              # by whose rules; else the trace's own
      expect: refused           # or: passes
      by_step: 10
      because: the same action
    - name: last night's work goes on
      journal: night.jsonl      # written by `estop journal export`
      agent: nightly
      expect: passes

Code 1 if a case does not hold, 2 if one cannot be tested.";

/// Test a configuration's rules against recorded work, without a running estop
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Args {
    /// The cases, in YAML or JSON
    cases: PathBuf,
    /// Test the rules of this configuration, whichever the cases name
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CasesIn {
    #[serde(default)]
    config: Option<PathBuf>,
    cases: Vec<CaseIn>,
}

/// One case, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseIn {
    name: String,
    #[serde(default)]
    traces: Option<PathBuf>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    journal: Option<PathBuf>,
    #[serde(default)]
    agent: Option<String>,
    expect: Expected,
    #[serde(default)]
    by_step: Option<usize>,
    #[serde(default)]
    because: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expected {
    /// Something of it is refused.
    Refused,
    /// Nothing of it is.
    Passes,
}

/// How a case ended.
#[derive(Serialize)]
struct Tested {
    name: String,
    holds: bool,
    /// What became of the work.
    found: String,
}

/// Runs the command.
pub(super) fn main(args: &Args, json: bool) -> anyhow::Result<Exit> {
    let name = shown(&args.cases);
    let text = text_of(&args.cases).with_context(|| format!("cannot read {name}"))?;
    let read: CasesIn = read_yaml(&text, &name)?;
    if read.cases.is_empty() {
        bail!("{name}: cases: there is none");
    }
    let folder = args.cases.parent().unwrap_or(Path::new(""));
    let config = args.config.clone().or_else(|| read.config.as_ref().map(|config| folder.join(config)));
    let rules = rules(config.as_deref())?;
    let mut tested = Vec::new();
    for (number, case) in read.cases.iter().enumerate() {
        let found = case.test(folder, &rules);
        let (holds, found) =
            found.with_context(|| format!("{name}: cases[{number}] ({})", escaped(&case.name)))?;
        let case = Tested { name: escaped(&case.name), holds, found: escaped(&found) };
        if !json {
            let verdict = if holds { "ok    " } else { "FAILED" };
            say(&format!("{verdict}  {}: {}", case.name, case.found))?;
        }
        tested.push(case);
    }
    let held = tested.iter().filter(|case| case.holds).count();
    if json {
        say_json(&serde_json::json!({ "cases": tested, "held": held }))?;
    } else {
        say(&format!("{held} of {} cases hold.", tested.len()))?;
    }
    Ok(if held == tested.len() { Exit::Fine } else { Exit::No })
}

/// The rules that are tested: of the file that is named, else of the one in the usual place.
fn rules(config: Option<&Path>) -> anyhow::Result<PolicyFile> {
    match estop_config::file(config, &Env::of_process())? {
        Some(file) => Ok(estop_config::load(&file)?),
        None => Ok(estop_config::parse("", "configuration")?),
    }
}

impl CaseIn {
    /// Whether it holds, and what became of the work.
    fn test(&self, folder: &Path, rules: &PolicyFile) -> anyhow::Result<(bool, String)> {
        let of_refusals = [("by_step", self.by_step.is_some()), ("because", self.because.is_some())];
        if self.expect == Expected::Passes {
            none_of(&of_refusals, "goes with `expect: refused`")?;
        }
        match (&self.traces, &self.journal) {
            (Some(traces), None) => self.test_traces(&folder.join(traces), rules),
            (None, Some(journal)) => self.test_journal(&folder.join(journal), rules),
            (None, None) => {
                bail!("name recorded work: `traces: FILE` or `journal: FILE`")
            }
            (Some(_), Some(_)) => {
                bail!("`traces` and `journal` are two cases: leave one out")
            }
        }
    }

    fn test_traces(&self, file: &Path, rules: &PolicyFile) -> anyhow::Result<(bool, String)> {
        let mut lines = Lines::open(file, "judging")?;
        let (mut tested, mut refused) = (0_usize, 0_usize);
        let mut newest = String::new();
        while let Some((number, line)) = lines.next_line()? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let trace = Trace::parse(line).with_context(|| format!("{}:{number}", shown(file)))?;
            if self.id.as_ref().is_some_and(|id| *id != trace.id) {
                continue;
            }
            tested += 1;
            let (is_so, found) = self.test_trace(&trace, rules)?;
            if is_so != (self.expect == Expected::Refused) {
                return Ok((false, found));
            }
            refused += usize::from(is_so);
            newest = found;
        }
        Ok(match (tested, &self.id) {
            (0, Some(id)) => (false, format!("{} has no trace `{id}`", shown(file))),
            (0, None) => (false, format!("{} has no trace", shown(file))),
            (1, _) => (true, newest),
            (_, _) => (true, format!("{refused} of {tested} traces were refused")),
        })
    }

    /// Whether it is refused, as this case wants it if it does; and what became of it.
    fn test_trace(&self, trace: &Trace, rules: &PolicyFile) -> anyhow::Result<(bool, String)> {
        let agent = self.agent.as_deref().unwrap_or_else(|| trace.agent());
        let policy = rules.resolve(Some(agent), None);
        let extra: Vec<String> = policy.limits.test_runners.iter().map(ToString::to_string).collect();
        let run = run(trace, &policy, &TestRunners::new(&extra)?, None);
        if run.steps == 0 {
            bail!("trace {} has no step to judge", escaped(&trace.id));
        }
        let Some(stopped) = &run.stopped else {
            let watched = match policy.modes[Guard::Loop] {
                Mode::Enforce => "",
                Mode::Shadow => " (loops are only watched under these rules)",
                Mode::Off => " (nobody looks for loops under these rules)",
            };
            let found = format!("trace {} was not refused in {} steps{watched}", trace.id, run.steps);
            return Ok((false, found));
        };
        let mut found =
            format!("trace {} was refused after {} steps: {}", trace.id, stopped.step, stopped.reason);
        if self.expect == Expected::Passes {
            return Ok((true, found));
        }
        let late = self.by_step.filter(|most| stopped.step > *most);
        let missing = self.because.as_ref().filter(|because| !stopped.reason.contains(because.as_str()));
        if let Some(most) = late {
            found += &format!(" It had to be by step {most}.");
        }
        if let Some(because) = missing {
            found += &format!(" The reason had to have the words `{because}`.");
        }
        Ok((late.is_none() && missing.is_none(), found))
    }

    fn test_journal(&self, file: &Path, rules: &PolicyFile) -> anyhow::Result<(bool, String)> {
        let of_traces = [
            ("id", self.id.is_some()),
            ("by_step", self.by_step.is_some()),
            ("because", self.because.is_some()),
        ];
        none_of(&of_traces, "goes with `traces`, not with `journal`")?;
        let Some(agent) = &self.agent else {
            bail!("`agent` is missing: a journal has the records of many");
        };
        let mut backtest = Backtest::new(|agent: &str| rules.resolve(Some(agent), None));
        let journal = JournalArgs::of_file(file.to_owned());
        if let Some(broken) = read(&journal, "judging", &mut backtest)? {
            bail!("{}:{}: {}", file.display(), broken.line, broken.problem());
        }
        let found = backtest.outcomes().find(|(name, _)| name == agent);
        let Some((_, outcome)) = found else {
            return Ok((false, format!("{} has no records of agent {agent}", shown(file))));
        };
        let AgentOutcome { requests, refused, refused_before, ref stops, .. } = *outcome;
        let is_refused = refused > 0 || !stops.is_empty();
        if !is_refused && refused_before > 0 {
            bail!(
                "{refused_before} of agent {agent}'s {requests} requests were refused when this was recorded: nobody knows what \
                 these rules would have made of them. Use a journal of an estop that only watched (`preset: watch`)"
            );
        }
        if !is_refused && requests == 0 {
            bail!("{} has no request of agent {agent} to judge", shown(file));
        }
        let why = stops.first().map(|stop| format!(", first at record {}: {}", stop.seq, stop.reason));
        let found = format!("{refused} of {requests} requests were refused{}", why.unwrap_or_default());
        Ok((is_refused == (self.expect == Expected::Refused), found))
    }
}

/// Refuses the first of these keys that is given.
fn none_of(keys: &[(&str, bool)], why: &str) -> anyhow::Result<()> {
    match keys.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => bail!("`{key}` {why}"),
        None => Ok(()),
    }
}

/// A path in a sentence: no line of its own.
fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}
