//! `/metrics` (OB-2): counters made of the journal's records, and gauges that are asked for at each scrape.
//!
//! Requests never wait for it: what is counted comes behind the journal, on the thread that makes rows of its records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use estop_core::decision::{Decision, Effect};
use estop_core::event::{Event, EventKind};
use estop_core::operator::{Operator, Stopped};
use estop_core::policy_file::PolicyFile;
use estop_core::system::proof_test::CANARY;
use estop_core::system::{Channel, SystemEvent, SystemState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::request_ends::{EndedRequest, RequestOutcome};

/// Agents of the configuration that have series of their own.
const CONFIGURED_MAX: usize = 500;
/// Others that do, in the order they came. The rest is `other`: anybody may think of a new name.
const OTHERS_MAX: usize = 100;
const OTHER: &str = "other";

/// From 50 ms to a quarter of an hour.
const DURATION_S: [f64; 13] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0];
/// A stop is promised within a second.
const STOP_S: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];
const STATES: [SystemState; 4] =
    [SystemState::Starting, SystemState::Running, SystemState::Shutdown, SystemState::SafeMode];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    agent: Arc<str>,
    outcome: &'static str,
    guard: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardLabels {
    agent: Arc<str>,
    guard: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    agent: Arc<str>,
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabel {
    agent: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardLabel {
    guard: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabel {
    channel: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabel {
    part: String,
}

const CHANNELS: [(Channel, &str); 3] =
    [(Channel::Llm, "llm"), (Channel::Tools, "tools"), (Channel::Messaging, "messaging")];

/// What is counted, and what is asked for.
pub struct Metrics {
    registry: Registry,
    /// Held by a scrape: gauges are cleared and filled anew.
    scraping: Mutex<()>,
    names: Mutex<AgentNames>,
    requests: Family<RequestLabels, Counter>,
    tool_calls: Family<GuardLabel, Counter>,
    duration: Histogram,
    first_byte: Histogram,
    tokens: Family<TokenLabels, Counter>,
    cost: Family<AgentLabel, Counter<f64, AtomicU64>>,
    stopped: Family<GuardLabels, Counter>,
    watched: Family<GuardLabels, Counter>,
    kills: Counter,
    kill: Histogram,
    gate: Family<StateLabel, Gauge>,
    channels: Family<ChannelLabel, Gauge>,
    epoch: Gauge,
    ending: Gauge,
    in_progress: Family<KindLabel, Gauge>,
    agents: Family<StateLabel, Gauge>,
    stuck: Family<PartLabel, Gauge<i64, AtomicI64>>,
    journal: Gauge,
    spans: Family<ResultLabel, Counter>,
}

/// Counts spans of requests.
#[derive(Clone, Debug)]
pub(crate) struct SpanCounters {
    /// The collector took them.
    pub(crate) sent: Counter,
    /// Nobody took them.
    pub(crate) dropped: Counter,
}

/// Which agents have series of their own.
#[derive(Default)]
struct AgentNames {
    configured: BTreeSet<Arc<str>>,
    others: BTreeMap<Arc<str>, ()>,
}

impl AgentNames {
    fn label(&mut self, agent: &Arc<str>) -> Arc<str> {
        if self.configured.contains(agent) || self.others.contains_key(agent) {
            return Arc::clone(agent);
        }
        if self.others.len() < OTHERS_MAX {
            self.others.insert(Arc::clone(agent), ());
            return Arc::clone(agent);
        }
        Arc::from(OTHER)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("estop");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Which estop this is", version);
        let requests = Family::default();
        registry.register(
            "requests",
            "Requests to models that ended, by how, and by the guard that refused them",
            requests.clone(),
        );
        let tool_calls = Family::default();
        registry.register(
            "tool_calls",
            "Tool calls that hooks and the MCP gate asked for, by the guard that refused them (none: allowed)",
            tool_calls.clone(),
        );
        let duration = Histogram::new(DURATION_S);
        registry.register_with_unit(
            "request_duration",
            "From a request's arrival to the end of its answer",
            Unit::Seconds,
            duration.clone(),
        );
        let first_byte = Histogram::new(DURATION_S);
        registry.register_with_unit(
            "first_byte",
            "From the moment a request is sent on to the first byte of its answer",
            Unit::Seconds,
            first_byte.clone(),
        );
        let tokens = Family::default();
        registry.register("tokens", "Tokens used, as providers said or as estimated", tokens.clone());
        let cost = Family::default();
        registry.register("cost_usd", "Dollars spent, by the price list in use", cost.clone());
        let stopped = Family::default();
        registry.register("agent_stops", "Agents that a guard switched off or paused", stopped.clone());
        let watched = Family::default();
        registry.register(
            "agent_stops_watched",
            "Stops that a guard in shadow mode would have made",
            watched.clone(),
        );
        let kills = Counter::default();
        registry.register(
            "kills",
            "How often the emergency stop was pressed, for everything or one channel",
            kills.clone(),
        );
        let kill = Histogram::new(STOP_S);
        registry.register_with_unit(
            "kill_duration",
            "From a kill by a person (API, command, dashboard) until everything in progress was told to end",
            Unit::Seconds,
            kill.clone(),
        );
        let gate = Family::default();
        registry.register("gate_state", "1 for the state the emergency stop is in", gate.clone());
        let channels = Family::default();
        registry.register("channel_open", "0 if nothing passes on this channel", channels.clone());
        let epoch = Gauge::default();
        registry.register("gate_epoch", "Grows with each kill, unlock and clear", epoch.clone());
        let ending = Gauge::default();
        registry.register(
            "ending",
            "1 once estop was told to end: no new connection is taken",
            ending.clone(),
        );
        let in_progress = Family::default();
        registry.register("in_progress", "Model calls, tools and messages in progress", in_progress.clone());
        let agents = Family::default();
        registry.register("agents", "Agents in memory, by what their next request would get", agents.clone());
        let stuck = Family::default();
        registry.register_with_unit(
            "part_stuck",
            "For how long a part of estop has not run; no series: all parts run",
            Unit::Seconds,
            stuck.clone(),
        );
        let journal = Gauge::default();
        registry.register(
            "journal_works",
            "0 if the journal cannot be written: then every request is refused",
            journal.clone(),
        );
        let spans = Family::default();
        registry.register(
            "spans",
            "Spans of requests: sent to the collector, or dropped because it did not take them",
            spans.clone(),
        );
        Metrics {
            registry,
            scraping: Mutex::default(),
            names: Mutex::default(),
            requests,
            tool_calls,
            duration,
            first_byte,
            tokens,
            cost,
            stopped,
            watched,
            kills,
            kill,
            gate,
            channels,
            epoch,
            ending,
            in_progress,
            agents,
            stuck,
            journal,
            spans,
        }
    }

    /// Which agents the configuration names.
    pub(crate) fn configured(&self, file: &PolicyFile) {
        let names = file.agents().take(CONFIGURED_MAX).map(Arc::from).collect();
        self.names.lock().unwrap_or_else(PoisonError::into_inner).configured = names;
    }

    fn label(&self, agent: &Arc<str>) -> Arc<str> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).label(agent)
    }

    /// What counts spans.
    pub(crate) fn span_counters(&self) -> SpanCounters {
        let of = |result| self.spans.get_or_create(&ResultLabel { result }).clone();
        SpanCounters { sent: of("sent"), dropped: of("dropped") }
    }

    /// Counts a request that ended.
    pub(crate) fn request_ended(&self, agent: &Arc<str>, ended: &EndedRequest<'_>) {
        let agent = self.label(agent);
        let guard = ended.outcome.refused_by().map_or("", |guard| guard.name());
        self.requests
            .get_or_create(&RequestLabels {
                agent: Arc::clone(&agent),
                outcome: ended.outcome.label(),
                guard,
            })
            .inc();
        if let Some(ms) = ended.duration_ms {
            self.duration.observe(ms as f64 / 1e3);
        }
        if let Some(ms) = ended.first_byte_ms {
            self.first_byte.observe(f64::from(ms) / 1e3);
        }
        if matches!(ended.outcome, RequestOutcome::Refused(_)) {
            return;
        }
        let used = [("input", ended.usage.input_tokens), ("output", ended.usage.output_tokens)];
        for (direction, tokens) in used {
            self.tokens
                .get_or_create(&TokenLabels { agent: Arc::clone(&agent), direction })
                .inc_by(tokens.into());
        }
        self.cost.get_or_create(&AgentLabel { agent }).inc_by(ended.usage.usd.0 as f64 / 1e9);
    }

    /// Counts what else a record says.
    pub(crate) fn decided(&self, agent: &Arc<str>, event: &Event, decision: &Decision) {
        if matches!(event.what, EventKind::ToolRequested(_)) {
            let guard = decision.refused_by().map_or("", |guard| guard.name());
            self.tool_calls.get_or_create(&GuardLabel { guard }).inc();
        }
        for effect in &decision.effects {
            let (family, guard) = match effect {
                Effect::Deactivated { cause } | Effect::Paused { cause } => (&self.stopped, cause.guard()),
                Effect::WouldHaveStopped { guard, .. } => (&self.watched, *guard),
                Effect::AbortInFlight
                | Effect::HealthFell(_)
                | Effect::LoopEvidence(_)
                | Effect::Nudged { .. }
                | Effect::NudgeEnded { .. }
                | Effect::RunTripped { .. }
                | Effect::RunEscalated { .. }
                | Effect::CutStream { .. }
                | Effect::BudgetWarned(_)
                | Effect::BudgetRefused(_)
                | Effect::ReservationExpired { .. }
                | Effect::PressButton
                | Effect::SnoozeEnded { .. } => continue,
            };
            family.get_or_create(&GuardLabels { agent: self.label(agent), guard: guard.name() }).inc();
        }
    }

    /// Counts what was done to the system.
    pub(crate) fn steered(&self, event: &SystemEvent) {
        if matches!(event, SystemEvent::KillRequested { .. }) {
            self.kills.inc();
        }
    }

    /// How long a kill took.
    pub(crate) fn killed(&self, stopped: &Stopped) {
        self.kill.observe(stopped.cut_us as f64 / 1e6);
    }

    /// Everything, in Prometheus' text format.
    pub(crate) fn scrape(&self, operator: &dyn Operator, file: &PolicyFile) -> String {
        let _scraping = self.scraping.lock().unwrap_or_else(PoisonError::into_inner);
        self.configured(file);
        let gate = operator.gate();
        for state in STATES {
            let is_in = i64::from(gate.state == state);
            self.gate.get_or_create(&StateLabel { state: state_name(state) }).set(is_in);
        }
        for (channel, name) in CHANNELS {
            self.channels.get_or_create(&ChannelLabel { channel: name }).set(gate.lets_pass(channel).into());
        }
        self.epoch.set(gate.epoch.try_into().unwrap_or(i64::MAX));
        self.ending.set(operator.is_ending().into());
        let work = operator.under_way();
        for (kind, count) in
            [("model_call", work.model_calls), ("tool", work.tools), ("message", work.messages)]
        {
            self.in_progress.get_or_create(&KindLabel { kind }).set(count.try_into().unwrap_or(i64::MAX));
        }
        self.agents.clear();
        for view in operator.agents().iter().filter(|view| &*view.name != CANARY) {
            self.agents.get_or_create(&StateLabel { state: view.status.kind.name() }).inc();
        }
        self.stuck.clear();
        for part in operator.stuck_parts() {
            let seconds = (part.silent_ms / 1_000).try_into().unwrap_or(i64::MAX);
            self.stuck.get_or_create(&PartLabel { part: part.name.to_string() }).set(seconds);
        }
        self.journal.set(operator.journal_failure().is_none().into());
        let mut text = String::new();
        // A `String` takes everything.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn state_name(state: SystemState) -> &'static str {
    match state {
        SystemState::Starting => "starting",
        SystemState::Running => "running",
        SystemState::Shutdown => "shutdown",
        SystemState::SafeMode => "safe_mode",
    }
}
