//! What the tests of the data plane share: a fake model, a gateway in front of it, and a client that sees every byte.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test binary uses a part of it"
)]

pub mod http;
pub mod raw;
pub mod two;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use estop_core::event::EventKind;
use estop_core::policy_file::{PolicyFile, PolicyFileIn};
use estop_core::system::{SystemDecision, SystemEvent};
use estop_fake_model::FakeModel;
use estop_gateway::settings::{Auth, Limits, Provider, Settings, UnknownAgents};
use estop_gateway::{Engine, Gateway, JournalFile, JournalQueue, Recorded, RestoredState};
use estop_journal::{Head, SYSTEM, State};
use estop_wire::protocol::Family;

/// Long enough for a loaded machine, short enough to fail.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A journal in memory.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl JournalFile for Lines {
    fn write(&self, lines: &[u8], _: u64) -> std::io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A gateway in front of a fake model.
pub struct House {
    pub gateway: Option<Gateway>,
    pub model: FakeModel,
    pub queue: Arc<JournalQueue>,
    lines: Lines,
    records: Arc<Mutex<Vec<Recorded>>>,
    writer: Option<JoinHandle<()>>,
}

impl House {
    /// With this policy file, as JSON.
    pub fn with_policy(policy: &str) -> House {
        House::build(policy, |_| {})
    }

    /// With the default policy.
    pub fn new() -> House {
        House::with_policy("{}")
    }

    /// With this policy and changed settings.
    pub fn build(policy: &str, change: impl FnOnce(&mut Settings)) -> House {
        House::on(FakeModel::start(Default::default()).unwrap(), policy, change)
    }

    /// The same in front of a given model.
    pub fn on(model: FakeModel, policy: &str, change: impl FnOnce(&mut Settings)) -> House {
        let lines = Lines::default();
        let queue = JournalQueue::with_file(Box::new(lines.clone()), State::default());
        let mut house = House::keeping(model, policy, queue, change);
        house.lines = lines;
        house
    }

    /// The same with a journal of its own.
    pub fn keeping(
        model: FakeModel,
        policy: &str,
        queue: JournalQueue,
        change: impl FnOnce(&mut Settings),
    ) -> House {
        House::remembering(model, policy, queue, RestoredState::default(), change)
    }

    /// The same after a restart, with what was remembered.
    pub fn remembering(
        model: FakeModel,
        policy: &str,
        queue: JournalQueue,
        remembered: RestoredState,
        change: impl FnOnce(&mut Settings),
    ) -> House {
        let file: PolicyFileIn = serde_json::from_str(policy).unwrap();
        let mut settings = settings(&model, file.check(&|_| None).unwrap());
        change(&mut settings);
        let queue = Arc::new(queue);
        let records: Arc<Mutex<Vec<Recorded>>> = Arc::default();
        let gateway = Gateway::start(settings, Arc::clone(&queue), remembered).unwrap();
        let (taken, kept) = (Arc::clone(&queue), Arc::clone(&records));
        let writer = std::thread::spawn(move || {
            let mut batch = Vec::new();
            while taken.take(&mut batch, None).is_some() {
                kept.lock().unwrap().extend(batch.drain(..).map(|queued| queued.record));
            }
        });
        House { gateway: Some(gateway), model, queue, lines: Lines::default(), records, writer: Some(writer) }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        self.gateway.as_ref().unwrap().engine()
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.gateway.as_ref().unwrap().address()
    }

    /// Looks through the journal so far until something is found.
    pub fn find<T>(&self, mut find: impl FnMut(&Recorded) -> Option<T>) -> Option<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.records.lock().unwrap().iter().find_map(&mut find) {
                return Some(found);
            }
            if Instant::now() > end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the journal has so many of these; whether it has.
    pub fn find_all(&self, count: usize, is_one: impl Fn(&Recorded) -> bool) -> bool {
        let end = Instant::now() + PATIENCE;
        while self.records.lock().unwrap().iter().filter(|record| is_one(record)).count() < count {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Everything recorded of the system so far.
    pub fn system_records(&self) -> Vec<(SystemEvent, SystemDecision)> {
        let of = |record: &Recorded| match record {
            Recorded::System { event, decision, .. } => Some((event.clone(), *decision)),
            Recorded::Agent { .. } => None,
        };
        self.records.lock().unwrap().iter().filter_map(of).collect()
    }

    /// Everything recorded so far, of agents: whose, and the line as it was written.
    pub fn records(&self) -> Vec<String> {
        self.queue.flush();
        let lines = self.lines.0.lock().unwrap();
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let of = |line: &[u8]| {
            let head = Head::read(line).unwrap();
            (head.agent != SYSTEM).then(|| format!("{} {}", head.agent, String::from_utf8_lossy(line)))
        };
        lines.filter_map(of).collect()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        drop(self.gateway.take());
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Four providers, all of them the fake model.
pub fn settings(model: &FakeModel, policies: PolicyFile) -> Settings {
    let provider = |family, auth| Provider {
        family,
        tls: model.certificate_pem().is_some(),
        host: "127.0.0.1".into(),
        port: model.addr().port(),
        base_path: "".into(),
        auth,
        key: None,
        ca: None,
    };
    let providers: BTreeMap<Box<str>, Provider> = [
        ("openai".into(), provider(Family::OpenAi, Auth::Bearer)),
        ("anthropic".into(), provider(Family::Anthropic, Auth::Header("x-api-key"))),
        ("gemini".into(), provider(Family::Gemini, Auth::Header("x-goog-api-key"))),
        ("ollama".into(), provider(Family::Ollama, Auth::None)),
    ]
    .into();
    Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: None,
        workers: 2,
        tls: None,
        providers,
        relays: BTreeMap::new(),
        mcp: BTreeMap::new(),
        keys: Vec::new(),
        require_keys: false,
        allowed_origins: Vec::new(),
        unknown_agents: UnknownAgents::default(),
        llm_enabled: true,
        limits: Limits::default(),
        policies,
        prices: Arc::default(),
    }
}

/// One way to ask for text: path, and a body with `{model}`, `{prompt}` and `{stream}` in it.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    pub name: &'static str,
    pub plain: &'static str,
    pub streamed: &'static str,
    pub body: &'static str,
}

impl Dialect {
    pub fn path(&self, agent: &str, stream: bool) -> String {
        format!("/agents/{agent}{}", if stream { self.streamed } else { self.plain })
    }

    pub fn body(&self, prompt: &str, stream: bool) -> String {
        let stream = if stream { "true" } else { "false" };
        self.body.replace("{prompt}", prompt).replace("{stream}", stream)
    }
}

/// Every protocol that generates text.
pub const DIALECTS: [Dialect; 7] = [
    Dialect {
        name: "openai_chat",
        plain: "/openai/v1/chat/completions",
        streamed: "/openai/v1/chat/completions",
        body: r#"{"model":"m","stream":{stream},"messages":[{"role":"user","content":"{prompt}"}]}"#,
    },
    Dialect {
        name: "openai_responses",
        plain: "/openai/v1/responses",
        streamed: "/openai/v1/responses",
        body: r#"{"model":"m","stream":{stream},"input":"{prompt}"}"#,
    },
    Dialect {
        name: "openai_completions",
        plain: "/openai/v1/completions",
        streamed: "/openai/v1/completions",
        body: r#"{"model":"m","stream":{stream},"prompt":"{prompt}"}"#,
    },
    Dialect {
        name: "anthropic",
        plain: "/anthropic/v1/messages",
        streamed: "/anthropic/v1/messages",
        body: r#"{"model":"m","max_tokens":99,"stream":{stream},"messages":[{"role":"user","content":"{prompt}"}]}"#,
    },
    Dialect {
        name: "gemini",
        plain: "/gemini/v1beta/models/m:generateContent",
        streamed: "/gemini/v1beta/models/m:streamGenerateContent?alt=sse",
        body: r#"{"contents":[{"role":"user","parts":[{"text":"{prompt}"}]}]}"#,
    },
    Dialect {
        name: "ollama_chat",
        plain: "/ollama/api/chat",
        streamed: "/ollama/api/chat",
        body: r#"{"model":"m","stream":{stream},"messages":[{"role":"user","content":"{prompt}"}]}"#,
    },
    Dialect {
        name: "ollama_generate",
        plain: "/ollama/api/generate",
        streamed: "/ollama/api/generate",
        body: r#"{"model":"m","stream":{stream},"prompt":"{prompt}"}"#,
    },
];

/// Waits until something is so.
pub fn wait<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends all providers of these settings to this port.
pub fn aim(settings: &mut Settings, port: u16) {
    for provider in settings.providers.values_mut() {
        provider.port = port;
    }
}

/// What a record of an agent says.
pub fn what(record: &Recorded) -> Option<&EventKind> {
    match record {
        Recorded::Agent { event, .. } => Some(&event.what),
        Recorded::System { .. } => None,
    }
}
