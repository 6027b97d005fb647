//! An estop without traffic: real agents' states and the real rules of the button, in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use estop_core::budget::PeriodSpend;
use estop_core::decision::Decision;
use estop_core::engine::{AgentState, StatusQuery};
use estop_core::event::{Event, EventKind};
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_core::loop_detector::LoopFinding;
use estop_core::operator::{
    AgentCommand, AgentKeyHash, AgentView, EndedWork, FleetView, HookCall, HookFault, HookReply,
    JournalFailure, NewRecording, NewSnooze, OnEnd, OnLine, Operator, OperatorError, Overrides, Recording,
    RecordingLine, RunStep, Stopped, TriggerView, Watch, Watched,
};
use estop_core::policy::{Policy, Preset};
use estop_core::policy_file::PolicyFile;
use estop_core::printed_command::Commands;
use estop_core::system::button::{Latched, Press, Unlock};
use estop_core::system::proof_test::{ProofStep, ProofTest, ProofTestError, ProofTests};
use estop_core::system::{CaseChange, GateView, System, SystemDecision, SystemEvent, SystemState};
use estop_core::time::{Millis, Now, Zone};
use estop_store::{CaseUpdate, Cases, Sqlite};

/// Of `a ticket`.
const TICKET_SHA256: &str = "cc17bef09b291e933a8adef2fa0ec6485b25e733203df9522ae654729f000d3a";

/// One of everything an operator does, with who asked for it.
pub(crate) struct FakeOperator {
    file: RwLock<Arc<PolicyFile>>,
    /// Where it answers cases, as the journal's rows would.
    store: Arc<Sqlite>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    trouble: Option<JournalFailure>,
    agents: BTreeMap<Name, Fake>,
    system: System,
    latched: Option<Latched>,
    keys: Vec<AgentKeyHash>,
    done: Vec<String>,
    proof_test: Option<ProofTest>,
    fleet_latest_day: Option<i32>,
    before_stored: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Default)]
struct Fake {
    state: AgentState,
    overrides: Overrides,
    score: Option<LoopFinding>,
}

/// A record after all that opened something.
const NEWEST: u64 = 1_000_000;
const NOW: Now = Now { mono: Millis(5_000), wall: 1_763_164_800_000 };

pub(crate) fn zones(name: &str) -> Option<Zone> {
    let known = jiff::tz::TimeZoneDatabase::bundled().get(name).is_ok();
    known.then(|| Zone { name: name.into(), ..Zone::default() })
}

impl FakeOperator {
    pub(crate) fn new(file: Arc<PolicyFile>, store: Arc<Sqlite>) -> FakeOperator {
        let fake = FakeOperator { file: RwLock::new(file), store, inner: Mutex::default() };
        fake.system(&SystemEvent::Started { found: None });
        fake
    }

    pub(crate) fn file(&self) -> Arc<PolicyFile> {
        Arc::clone(&self.file.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_trouble(&self, trouble: Option<JournalFailure>) {
        self.lock().trouble = trouble;
    }

    pub(crate) fn keys(&self) -> Vec<AgentKeyHash> {
        self.lock().keys.clone()
    }

    /// What was asked for, and by whom.
    pub(crate) fn done(&self) -> Vec<String> {
        self.lock().done.clone()
    }

    pub(crate) fn set_score(&self, agent: &str, score: LoopFinding) {
        if let Some(agent) = self.lock().agents.get_mut(agent) {
            agent.score = Some(score);
        }
    }

    /// What the store takes in last, before it has all that was done.
    pub(crate) fn before_stored(&self, late: impl FnOnce() + Send + 'static) {
        self.lock().before_stored = Some(Box::new(late));
    }

    /// The clock was at this moment for a while; the agents and the account of all together have seen it.
    pub(crate) fn clock_was_at(&self, wall: i64) {
        let mut inner = self.lock();
        let now = Now { mono: Millis(1_000), wall };
        let policy = Policy::default();
        for agent in inner.agents.values_mut() {
            agent.state.handle(now, &Event::open(EventKind::Tick), &policy);
        }
        inner.fleet_latest_day = Some(Zone::default().local(wall).day);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: String) {
        self.lock().done.push(what);
    }

    fn policy(&self, name: &str, overrides: &Overrides) -> Policy {
        let over =
            self.file().check_overrides(Some(name), overrides.policy.clone(), &zones).unwrap_or_default();
        self.file().resolve_over(Some(name), overrides.role.as_deref(), &over)
    }

    fn view(&self, name: &str, agent: &Fake, gate: GateView) -> AgentView {
        let policy = Arc::new(self.policy(name, &agent.overrides));
        let status = agent.state.status(&StatusQuery {
            agent: name,
            now: NOW,
            gate,
            button: None,
            fleet: None,
            policy: &policy,
            commands: &Commands::default(),
        });
        let budget = policy.budget.clone();
        let role = agent.overrides.role.clone().or(self.file().role(name).map(Into::into));
        AgentView {
            name: name.into(),
            standing: agent.state.standing(),
            status,
            has_acted: agent.state.has_acted(),
            health: agent.state.health(),
            activity: agent.state.activity(),
            role,
            policy,
            score: agent.score,
            in_flight: agent.state.in_flight(),
            spent_today: Default::default(),
            spent_this_month: Default::default(),
            reserved: agent.state.reservations_sum(),
            budget_latest_day: agent.state.budget().latest_day_ahead(NOW, &budget),
            runs: agent.state.run_views(),
            snoozes: agent.state.snoozes().cloned().collect(),
        }
    }

    fn handle(&self, name: &str, run: Option<&str>, what: EventKind) -> Result<Decision, OperatorError> {
        let mut inner = self.lock();
        let agent = inner.agents.get_mut(name).ok_or_else(|| OperatorError::UnknownAgent(name.into()))?;
        let policy = self.policy(name, &agent.overrides);
        let event = Event { run: run.map(Into::into), gate: GateView::OPEN, what };
        let answered = CaseUpdate::answered(NEWEST, NOW.wall, name, &event, agent.state.standing());
        answered.iter().for_each(|update| self.store.update_case(update).expect("it is answered"));
        Ok(agent.state.handle(NOW, &event, &policy))
    }

    fn system(&self, event: &SystemEvent) -> SystemDecision {
        let mut inner = self.lock();
        let decision = inner.system.handle(NOW, event);
        let latched = inner.latched.take().unwrap_or_else(|| Latched::at_start(decision.gate, NOW.wall));
        inner.latched = Some(latched.after(event, &decision, NOW.wall));
        decision
    }
}

impl Operator for FakeOperator {
    fn agents(&self) -> Vec<AgentView> {
        let inner = self.lock();
        let gate = inner.system.gate();
        inner.agents.iter().map(|(name, agent)| self.view(name, agent, gate)).collect()
    }

    fn agent(&self, name: &str) -> Option<AgentView> {
        let inner = self.lock();
        let gate = inner.system.gate();
        inner.agents.get(name).map(|agent| self.view(name, agent, gate))
    }

    fn canonical(&self, name: &str) -> Name {
        let inner = self.lock();
        let known = inner.agents.keys().find(|known| known.eq_ignore_ascii_case(name));
        known.cloned().unwrap_or_else(|| name.into())
    }

    fn add_agent(&self, name: &str) -> Result<AgentView, OperatorError> {
        self.lock().agents.entry(name.into()).or_default();
        self.agent(name).ok_or(OperatorError::BadName)
    }

    fn steer(&self, agent: &str, steer: AgentCommand, by: &str) -> Result<AgentView, OperatorError> {
        let who: Name = by.into();
        let what = match steer {
            AgentCommand::Activate => EventKind::AgentActivated { by: who },
            AgentCommand::Deactivate => EventKind::AgentDeactivated { by: who },
            AgentCommand::Pause => EventKind::AgentPaused { by: who },
            AgentCommand::Resume => EventKind::AgentResumed { by: who },
        };
        self.handle(agent, None, what)?;
        self.note(format!("{steer:?} {agent} by {by}"));
        self.agent(agent).ok_or_else(|| OperatorError::UnknownAgent(agent.into()))
    }

    fn snooze(&self, agent: &str, snooze: NewSnooze, by: &str) -> Result<AgentView, OperatorError> {
        let NewSnooze { guard, for_ms, until, note } = snooze;
        self.handle(agent, None, EventKind::GuardSnoozed { by: by.into(), guard, for_ms, until, note })?;
        self.agent(agent).ok_or_else(|| OperatorError::UnknownAgent(agent.into()))
    }

    fn wake_guard(&self, agent: &str, guard: Guard, by: &str) -> Result<AgentView, OperatorError> {
        self.handle(agent, None, EventKind::GuardWoken { by: by.into(), guard })?;
        self.agent(agent).ok_or_else(|| OperatorError::UnknownAgent(agent.into()))
    }

    fn renew_budget(&self, agent: &str, spent: PeriodSpend, by: &str) -> Result<AgentView, OperatorError> {
        self.handle(agent, None, EventKind::BudgetRenewed { by: by.into(), spent })?;
        self.note(format!("Renew {agent} with {} by {by}", spent.this_month.usd));
        self.agent(agent).ok_or_else(|| OperatorError::UnknownAgent(agent.into()))
    }

    fn renew_fleet_budget(&self, spent: PeriodSpend, by: &str) -> Result<FleetView, OperatorError> {
        self.lock().fleet_latest_day = None;
        self.note(format!("Renew all together with {} by {by}", spent.this_month.usd));
        Ok(self.fleet())
    }

    fn fleet(&self) -> FleetView {
        let latest_day = self.lock().fleet_latest_day;
        FleetView { caps: self.file().fleet_budget(), latest_day, ..FleetView::default() }
    }

    fn set_overrides(&self, agent: &str, overrides: Overrides, by: &str) -> Result<AgentView, OperatorError> {
        self.check_overrides(Some(agent), &overrides)?;
        let mut inner = self.lock();
        let known = inner.agents.get_mut(agent).ok_or_else(|| OperatorError::UnknownAgent(agent.into()))?;
        known.overrides = overrides;
        inner.done.push(format!("Rules of {agent} by {by}"));
        drop(inner);
        self.agent(agent).ok_or_else(|| OperatorError::UnknownAgent(agent.into()))
    }

    fn set_preset(&self, preset: Option<Preset>, by: &str) -> Result<(), OperatorError> {
        let file = PolicyFile::clone(&self.file()).with_preset(preset);
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(file);
        self.note(format!("Preset {preset:?} by {by}"));
        Ok(())
    }

    fn check_overrides(&self, agent: Option<&str>, overrides: &Overrides) -> Result<(), OperatorError> {
        let checked = self.file().check_overrides(agent, overrides.policy.clone(), &zones);
        checked.map(|_| ()).map_err(OperatorError::BadPolicy)
    }

    fn run(&self, agent: &str, run: &str, step: RunStep, by: &str) -> Result<Decision, OperatorError> {
        self.handle(agent, Some(run).filter(|run| !run.is_empty()), step.into_event(by))
    }

    /// Says what it was told: the answer itself is the data plane's business.
    fn hook(&self, call: HookCall<'_>) -> HookReply {
        let HookCall { client, event, body, agent, run, bound, supervised, branch, lost } = call;
        self.note(format!("Hook {client} {event} {agent:?} {run:?} {bound} {supervised} {branch:?}"));
        if let Some(lost) = lost {
            return HookReply {
                stdout: serde_json::json!({"lost": lost}).to_string(),
                exit_code: 2,
                ..HookReply::default()
            };
        }
        if !body.starts_with(b"{\"tool\"") {
            let (field, why) = ("tool".to_owned(), "`tool` is missing".to_owned());
            let fault = Some(HookFault::Unread { field, why });
            return HookReply { stderr: "refused".to_owned(), exit_code: 2, fault, ..HookReply::default() };
        }
        let stdout = r#"{"permission":"allow","reason":null,"context":null,"end":false}"#.to_owned();
        HookReply { stdout, ..HookReply::default() }
    }

    fn key_owner(&self, sha256: [u8; 32]) -> Option<Name> {
        self.lock().keys.iter().find(|key| key.sha256 == sha256).map(|key| key.agent.clone())
    }

    fn set_keys(&self, keys: Vec<AgentKeyHash>) {
        self.lock().keys = keys;
    }

    fn record(&self, new: NewRecording, by: &str, mut on_line: OnLine) -> Result<Recording, OperatorError> {
        std::thread::spawn(move || on_line(RecordingLine::Last(r#"{"end":"time"}"#.to_owned())));
        self.access_changed(&format!("recording of {} began", new.agent), by);
        Ok(Box::new(()))
    }

    fn access_changed(&self, what: &str, by: &str) {
        self.note(format!("{what} by {by}"));
    }

    fn change_case(&self, change: CaseChange, by: &str) -> Result<(), OperatorError> {
        let update = CaseUpdate::by_person(NEWEST, NOW.wall, &by.into(), &change);
        self.store.update_case(&update).map_err(|error| OperatorError::NotPersisted(error.to_string()))
    }

    fn is_kept(&self) -> bool {
        true
    }

    fn is_stored(&self) -> bool {
        let late = self.lock().before_stored.take();
        late.into_iter().for_each(|late| late());
        true
    }

    fn journal_failure(&self) -> Option<JournalFailure> {
        self.lock().trouble
    }

    fn gate(&self) -> GateView {
        self.lock().system.gate()
    }

    fn button(&self) -> Latched {
        self.lock().latched.clone().expect("it was started")
    }

    fn kill(&self, press: Press) -> Stopped {
        self.note(format!("Kill by {}", press.by));
        let decision = self.system(&press.event());
        Stopped { decision, ended: EndedWork::default(), gate_us: 1, cut_us: 2, kept_us: Some(3) }
    }

    fn restart(&self, unlock: Unlock) -> Result<SystemDecision, OperatorError> {
        let Unlock { by, epoch, note } = unlock;
        Ok(self.system(&SystemEvent::RestartRequested { by, epoch, note }))
    }

    fn clear(&self, unlock: Unlock) -> Result<SystemDecision, OperatorError> {
        let Unlock { by, epoch, note } = unlock;
        Ok(self.system(&SystemEvent::ClearRequested { by, epoch, note }))
    }

    fn heartbeat(&self) -> bool {
        true
    }

    fn proof_test(&self, by: &str) -> Result<ProofTest, ProofTestError> {
        let mut inner = self.lock();
        if inner.system.gate().state != SystemState::Running {
            return Err(ProofTestError::NotRunning);
        }
        let step = ProofStep { name: "gate".into(), passed: true, took_us: 12, what: "refused".into() };
        let test = ProofTest { at: NOW.wall, by: by.into(), took_us: 34, steps: vec![step] };
        inner.proof_test = Some(test.clone());
        Ok(test)
    }

    fn proof_tests(&self) -> ProofTests {
        ProofTests { last: self.lock().proof_test.clone(), every_days: Some(30) }
    }

    fn under_way(&self) -> EndedWork {
        EndedWork { model_calls: 3, tools: 1, messages: 0 }
    }

    fn pulse(&self) -> u64 {
        0
    }

    fn triggers(&self) -> Vec<TriggerView> {
        let view = |name: &str, working, what: &str| TriggerView {
            name: name.into(),
            working,
            what: what.into(),
            since: 1_700_000_000_000,
        };
        vec![view("signal", true, "kill -USR1 1"), view("gpio", false, "there is no chip")]
    }

    fn watch(&self, who: Watched, on_end: OnEnd) -> Result<Watch, OperatorError> {
        let _ = (self.agent(&who.agent).ok_or(OperatorError::UnknownAgent(who.agent))?, on_end);
        Ok(Box::new(()))
    }

    /// There is one ticket, `a ticket`, of the run `task` of the agent `a0`.
    fn ticket(&self, sha256: [u8; 32]) -> Option<(Name, Name)> {
        let known = estop_core::hex::decode(TICKET_SHA256.as_bytes());
        (known == Some(sha256)).then(|| ("a0".into(), "task".into()))
    }
}
