//! One agent's recorded traffic under several settings of the loop guard side by side (LD-7): what each would have stopped, and how
//! those runs ended.

use std::collections::{BTreeMap, VecDeque};

use estop_core::budget::Amount;
use estop_core::event::{Event, EventKind};
use estop_core::ids::{CallId, Name};
use estop_core::policy::{LoopPolicy, Policy};

use super::loops::{LoopBacktest, LoopOutcome, LoopStop, Refusal, RunKey, refusal, run_of};
use super::run_end::{RunEnd, RunEnds};
use crate::record::Record;

/// Stops kept for each setting, the newest.
const STOPS_MAX: usize = 20;
/// Tool calls whose end is awaited.
const CALLS_MAX: usize = 64;

/// What happened to one agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records that were judged.
    pub records: u64,
    /// Requests to models that were let through.
    pub requests: u64,
    /// Calls of tools that hooks saw and let through.
    pub tool_calls: u64,
    /// What the requests cost.
    pub spent: Amount,
    /// Runs and conversations.
    pub runs: u64,
    /// Of these, those that ended by themselves.
    pub ended: u64,
    /// And of these, those in which a loop was possible: five steps or more.
    pub ended_long: u64,
    /// Those that the loop guard stopped.
    pub stopped: u64,
}

/// What one setting would have stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingOutcome {
    /// The counts.
    pub loops: LoopOutcome,
    /// How the runs ended that would have been stopped.
    pub ends: Ends,
    /// The newest stops, oldest first.
    pub stops: Vec<TunedStop>,
}

/// How many runs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// By themselves: taken for healthy.
    pub by_itself: u64,
    /// The same, but after they would have been stopped they brought nothing new.
    pub without_news: u64,
    /// By a person: taken for stuck.
    pub by_hand: u64,
    /// By the loop guard.
    pub by_loop_guard: u64,
    /// Of these, those whose agent a person switched on again.
    pub activated: u64,
    /// In the middle, or nobody knows.
    pub unknown: u64,
}

impl Ends {
    fn add(&mut self, end: RunEnd) {
        match end {
            RunEnd::ByItself => self.by_itself += 1,
            RunEnd::WithoutNews => self.without_news += 1,
            RunEnd::ByHand => self.by_hand += 1,
            RunEnd::ByLoopGuard { activated } => {
                self.by_loop_guard += 1;
                self.activated += u64::from(activated);
            }
            RunEnd::Unknown => self.unknown += 1,
        }
    }

    /// Runs of which nobody can say whether a stop was right.
    pub fn unclear(&self) -> u64 {
        self.without_news + self.by_loop_guard + self.unknown
    }
}

/// A stop, and how its run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedStop {
    /// The stop.
    pub stop: LoopStop,
    /// Which of its run's requests it was, from 1; 0 where hooks alone saw the run.
    pub request: u64,
    /// The tool of the newest step, if it had one.
    pub tool: Option<Name>,
    /// How its run ended.
    pub end: RunEnd,
}

struct Setting {
    test: LoopBacktest,
    stops: VecDeque<(RunKey, TunedStop)>,
}

/// Judges one agent's records by several settings, from the oldest on.
pub struct Tuning {
    settings: Vec<Setting>,
    exempt: Vec<Name>,
    ends: RunEnds,
    /// The tools of calls under way.
    calls: BTreeMap<CallId, Name>,
    since: i64,
    traffic: Traffic,
}

impl Tuning {
    /// By the rules of `policy`, with each of these loop settings in turn. Stops before `since` only fill the windows.
    pub fn new(policy: &Policy, settings: impl IntoIterator<Item = LoopPolicy>, since: i64) -> Tuning {
        let setting = |loops| Setting {
            test: LoopBacktest::new(Policy { loops, ..policy.clone() }, since, 0),
            stops: VecDeque::new(),
        };
        Tuning {
            settings: settings.into_iter().map(setting).collect(),
            exempt: policy.loops.exempt_tools.clone(),
            ends: RunEnds::default(),
            calls: BTreeMap::new(),
            since,
            traffic: Traffic::default(),
        }
    }

    /// Takes the agent's next record in.
    pub fn feed(&mut self, record: &Record<'_>) {
        let Some(event) = &record.event else { return };
        self.ends.feed(record, event);
        if record.now.wall >= self.since {
            self.count(record, event);
        }
        if let EventKind::ToolRequested(t) = &event.what {
            self.calls.insert(t.call, t.tool.clone());
            if self.calls.len() > CALLS_MAX {
                self.calls.pop_first();
            }
        }
        let mut tool = None;
        for setting in &mut self.settings {
            let Some(stop) = setting.test.feed(record) else { continue };
            let key = run_of(event);
            let tool = tool.get_or_insert_with(|| newest_tool(event, &self.exempt, &self.calls)).clone();
            let request = self.ends.requests(&key);
            setting.stops.push_back((key, TunedStop { stop, request, tool, end: RunEnd::Unknown }));
            if setting.stops.len() > STOPS_MAX {
                setting.stops.pop_front();
            }
        }
        if let EventKind::ToolFinished(t) = &event.what {
            self.calls.remove(&t.call);
        }
    }

    fn count(&mut self, record: &Record<'_>, event: &Event) {
        self.traffic.records += 1;
        let passed = u64::from(refusal(record.decision) == Refusal::None);
        self.traffic.requests += passed * u64::from(matches!(event.what, EventKind::RequestReceived(_)));
        self.traffic.tool_calls += passed * u64::from(matches!(event.what, EventKind::ToolRequested(_)));
        if let EventKind::ResponseCompleted(r) = &event.what {
            self.traffic.spent = self.traffic.spent.plus(r.usage.into());
        }
        if let EventKind::StreamAborted(a) = &event.what {
            self.traffic.spent = self.traffic.spent.plus(a.usage.into());
        }
    }

    /// What the agent did.
    pub fn traffic(&self) -> Traffic {
        let (mut ends, mut ended_long) = (Ends::default(), 0);
        for (end, is_long) in self.ends.since(self.since) {
            ends.add(end);
            ended_long += u64::from(is_long && end == RunEnd::ByItself);
        }
        let runs = ends.by_itself + ends.by_hand + ends.unclear();
        Traffic { runs, ended: ends.by_itself, ended_long, stopped: ends.by_loop_guard, ..self.traffic }
    }

    /// What each setting would have stopped, in their order.
    pub fn outcomes(&self) -> Vec<SettingOutcome> {
        let end = |run: &RunKey, recovered: bool| {
            let end = self.ends.of(run);
            if end == RunEnd::ByItself && !recovered { RunEnd::WithoutNews } else { end }
        };
        let outcome = |setting: &Setting| {
            let mut ends = Ends::default();
            setting.test.runs().for_each(|(run, recovered)| ends.add(end(run, recovered)));
            let told = |(run, stop): &(RunKey, TunedStop)| TunedStop {
                end: end(run, setting.test.recovered(run)),
                ..stop.clone()
            };
            let stops = setting.stops.iter().map(told).collect();
            SettingOutcome { loops: setting.test.outcome().clone(), ends, stops }
        };
        self.settings.iter().map(outcome).collect()
    }
}

/// The tool whose result was judged last.
fn newest_tool(event: &Event, exempt: &[Name], calls: &BTreeMap<CallId, Name>) -> Option<Name> {
    if let EventKind::ToolFinished(t) = &event.what {
        return calls.get(&t.call).cloned();
    }
    let EventKind::RequestReceived(r) = &event.what else { return None };
    let tools = r.print.steps.iter().rev().map(|step| &step.tool);
    tools.filter(|tool| !tool.is_empty()).find(|tool| !exempt.contains(tool)).cloned()
}
