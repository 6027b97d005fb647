//! What the tests share: a store in a folder, events, and receivers that behave or do not.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use estop_core::guards::breaker::LimitUse;
use estop_core::money::NanoUsd;
use estop_core::policy::LimitName;
use estop_notify::{
    AlertEvent, AlertType, BudgetSeen, Channel, ChannelKind, Cost, Detail, Endpoint, EscalationSeen, Phase,
    Reach, Settings, Webhook,
};
use estop_store::{Sqlite, SqliteOptions};

/// 2026-11-15 03:12:45 UTC.
pub(crate) const NIGHT: i64 = 1_794_712_365_000;

pub(crate) fn open(folder: &tempfile::TempDir) -> Sqlite {
    Sqlite::open(&folder.path().join("estop.db"), SqliteOptions::default()).expect("it opens")
}

pub(crate) fn event(alert: AlertType, agent: &str, n: u64) -> AlertEvent {
    AlertEvent {
        id: format!("{n}.0").into(),
        seq: n,
        at: NIGHT,
        alert,
        phase: Phase::Raised,
        agent: Some(agent.into()),
        run: None,
        cause: String::new(),
        evidence: String::new(),
        by: None,
        incident: None,
        cost: Cost::default(),
        detail: Detail::None,
    }
}

pub(crate) fn looped(agent: &str, n: u64) -> AlertEvent {
    AlertEvent {
        run: Some("nightly".into()),
        cause: "loop".to_owned(),
        evidence:
            "score 11.5 over 10.0: 6 similar prompts, 2 similar answers, 1 repeated call in 20 requests"
                .to_owned(),
        incident: Some(format!("{agent}-{n}").into()),
        cost: Cost { run: Some(NanoUsd(3_421_000_000)), today: Some(NanoUsd(12_105_000_000)) },
        ..event(AlertType::KillSwitch, agent, n)
    }
}

pub(crate) fn cleared(alert: AlertType, agent: &str, n: u64) -> AlertEvent {
    AlertEvent { phase: Phase::Cleared, by: Some("anna".into()), ..event(alert, agent, n) }
}

pub(crate) fn budget(agent: &str, percent: u8, n: u64) -> AlertEvent {
    let spent = u64::from(percent) * 100_000_000;
    let seen = BudgetSeen { percent, account: "usd_per_day".into(), spent, cap: 10_000_000_000 };
    AlertEvent { detail: Detail::Budget(seen), ..event(AlertType::Budget, agent, n) }
}

pub(crate) fn escalated(agent: &str, n: u64) -> AlertEvent {
    let seen = EscalationSeen {
        id: format!("{agent}-{n}").into(),
        issue: Some("42".into()),
        role: Some("feat-dev".into()),
        limit: LimitUse { limit: LimitName::ToolCalls, current: 200, max: 200 },
        summary: Some("Parser done, tests red.".to_owned()),
        branch: Some("feat/parser".into()),
        session: Some("01a1dc9c".into()),
        commit: None,
    };
    AlertEvent {
        run: Some("issue-42".into()),
        cause: "max tool calls".to_owned(),
        incident: None,
        cost: Cost { run: Some(NanoUsd(870_000_000)), today: None },
        detail: Detail::Escalation(Box::new(seen)),
        ..event(AlertType::CircuitBreaker, agent, n)
    }
}

/// A request as a receiver saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What a receiver does with a request.
pub(crate) enum Reply {
    /// Answers.
    Say(u16, &'static str, String),
    /// Answers without end.
    Flood,
    /// Takes the request and never answers.
    Hang,
    /// Closes at once.
    Close,
}

/// A receiver on this machine.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    pub(crate) connects: Arc<AtomicI64>,
}

impl Receiver {
    pub(crate) fn start(reply: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (seen, connects) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicI64::new(0)));
        let receiver = Receiver { address, seen: Arc::clone(&seen), connects: Arc::clone(&connects) };
        let reply = Arc::new(reply);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                connects.fetch_add(1, Ordering::SeqCst);
                let (seen, reply) = (Arc::clone(&seen), Arc::clone(&reply));
                std::thread::spawn(move || serve(stream, &seen, &*reply));
            }
        });
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Waits until so many requests were seen.
    pub(crate) fn wait(&self, count: usize) -> Vec<Seen> {
        let begun = Instant::now();
        loop {
            let requests = self.requests();
            if requests.len() >= count {
                return requests;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "only {} of {count} requests came",
                requests.len()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Seen>>, reply: &dyn Fn(&Seen, usize) -> Reply) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let Some(request) = read(&mut reader) else { return };
    let nth = {
        let mut seen = seen.lock().expect("no panic");
        seen.push(request.clone());
        seen.len()
    };
    let mut stream = stream;
    match reply(&request, nth) {
        Reply::Say(status, headers, body) => {
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
        Reply::Flood => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b'x'; 8192]).is_ok() {}
        }
        Reply::Hang => {
            let _ = reader.read(&mut [0]);
        }
        Reply::Close => {}
    }
}

fn read(reader: &mut impl BufRead) -> Option<Seen> {
    let mut seen = Seen::default();
    reader.read_line(&mut seen.line).ok().filter(|count| *count > 0)?;
    seen.line = seen.line.trim_end().to_owned();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        seen.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = seen.headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8_lossy(&body).into_owned();
    Some(seen)
}

/// A webhook on this machine.
pub(crate) fn webhook(url: &str) -> Channel {
    let endpoint = Endpoint::parse(url).expect("a URL");
    local(ChannelKind::Webhook(Webhook { endpoint, secrets: Vec::new() }))
}

/// A channel that may reach this machine.
pub(crate) fn local(kind: ChannelKind) -> Channel {
    Channel {
        reach: Reach { allow_private: false, allow_loopback: true },
        timeout: Duration::from_secs(2),
        ..Channel::new(kind)
    }
}

pub(crate) fn settings(channels: impl IntoIterator<Item = (&'static str, Channel)>) -> Settings {
    let channels = channels.into_iter().map(|(name, channel)| (name.into(), channel)).collect();
    Settings { channels, ..Settings::default() }
}
