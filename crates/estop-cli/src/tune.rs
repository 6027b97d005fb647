//! `estop tune`: what other settings of the loop guard would have stopped in the recorded traffic, and which one fits each agent
//! (LD-7).

mod proposal;
mod reading;
mod setting;
mod shown;
mod write;

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use estop_config::printable::escaped;
use estop_core::ids::Name;
use estop_core::policy::{LoopPolicy, Policy};
use estop_journal::{SettingOutcome, Traffic};

use super::client::{Daemon, DaemonArgs, Whereabouts};
use super::minutes::minutes;
use super::{Exit, journal, refused, say, say_json};
use proposal::{Case, Proposal};
use reading::{Judged, Source};
use write::Written;

/// Choose loop settings from recorded traffic; shows what each would have stopped
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It asks before it changes anything. Without a terminal, and with --json, it only shows; --yes writes."
)]
pub struct Args {
    /// Only this agent
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    agent: Option<String>,
    /// Only what happened so long before the newest record, as 90m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = minutes)]
    since: Option<u64>,
    /// An exported journal instead of the stored one; nothing is written then
    #[arg(long, value_name = "FILE", conflicts_with = "yes")]
    journal: Option<PathBuf>,
    /// Write what is proposed, without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<Exit> {
    let (source, daemon) = args.open()?;
    let mut report = args.judge(&source)?;
    if !args.daemon.json {
        say(&report.text())?;
    }
    let to = daemon.as_ref();
    for agent in report.agents.iter_mut().filter(|agent| !agent.proposal.change.is_empty()) {
        agent.written = write::write(to, agent, args.yes, args.daemon.json)?;
        if !args.daemon.json {
            say(&agent.written_text(to.is_some()))?;
        }
    }
    if args.daemon.json {
        say_json(&report.json())?;
    }
    Ok(Exit::Fine)
}

impl Args {
    /// The journal, and the estop that writes it; it need not run.
    fn open(&self) -> anyhow::Result<(Source, Option<Daemon>)> {
        if let Some(file) = &self.journal {
            return Ok((Source::File(file.clone()), None));
        }
        let daemon = self.daemon.daemon_of_owner("estop tune")?;
        let Whereabouts::DataDir(folder) = self.daemon.whereabouts()? else {
            anyhow::bail!("name the data directory with --data-dir");
        };
        let stored = journal::stored_in(&folder)?;
        journal::flush(&folder);
        Ok((Source::Stored(stored), Some(daemon)))
    }

    fn judge(&self, source: &Source) -> anyhow::Result<Report> {
        let survey = reading::survey(source)?;
        let only = match &self.agent {
            None => None,
            Some(agent) => match survey.name_of(agent) {
                None => return refused(format!("the journal has no records of {}", escaped(agent))),
                name => name,
            },
        };
        let newest = survey.newest;
        let ago = self.since.and_then(|minutes| i64::try_from(minutes).ok()?.checked_mul(60_000));
        let since = ago.map_or(i64::MIN, |ago| newest.saturating_sub(ago));
        let reading = reading::judge(source, survey, only.as_deref(), since)?;
        let agents = reading.agents.into_iter().map(AgentReport::of);
        Ok(Report {
            newest,
            agents: agents.filter(|agent| agent.is_active() || only.is_some()).collect(),
            left_out: reading.left_out,
        })
    }
}

/// What was found.
struct Report {
    newest: i64,
    agents: Vec<AgentReport>,
    /// Agents that were not judged, and how many records they have.
    left_out: Vec<(Name, u64)>,
}

/// What was found of one agent.
struct AgentReport {
    name: Name,
    policy: Box<Policy>,
    settings: Vec<LoopPolicy>,
    traffic: Traffic,
    outcomes: Vec<SettingOutcome>,
    proposal: Proposal,
    written: Written,
}

impl AgentReport {
    fn of(judged: Judged) -> AgentReport {
        let Judged { name, policy, settings, tuning } = judged;
        let (traffic, outcomes) = (tuning.traffic(), tuning.outcomes());
        let case = Case { policy: &policy, traffic, settings: &settings, outcomes: &outcomes };
        let proposal = case.propose();
        AgentReport { name, policy, settings, traffic, outcomes, proposal, written: Written::No }
    }

    fn case(&self) -> Case<'_> {
        let AgentReport { policy, traffic, settings, outcomes, .. } = self;
        Case { policy, traffic: *traffic, settings, outcomes }
    }

    fn is_active(&self) -> bool {
        self.traffic.requests + self.traffic.tool_calls > 0
    }
}
