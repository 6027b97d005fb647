//! The proof test: the stop, tried out on a canary in the running estop, while everybody else works.
//!
//! The canary is real where it can be: its request comes in through the data plane's own listener and goes out to an
//! upstream on this machine; its process runs under the supervisor and does not mind SIGTERM. The trigger is the button's
//! own code with a bit of the gate word that the canary alone obeys. Nothing of it is kept on the disk: a crash in the
//! middle leaves no bit behind.

pub mod canary;

mod client;
mod process;
mod record;
mod upstream;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use estop_core::event::EventKind;
use estop_core::operator::EndedWork;
use estop_core::system::SystemState;
use estop_core::system::proof_test::{ProofStep, ProofTest, ProofTestError, ProofTests};
use estop_gateway::{CANARY, Engine};

use crate::config_in_force::ConfigInForce;
use crate::latch_writer::LatchStatus;
use client::{Client, Secret, StreamEnd};
use process::CanaryProcess;
use record::Record;
use upstream::CanaryUpstream;

/// No step takes this long, except the process, which has its two seconds first.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Tries out the stop, and knows when that was last done.
pub struct ProofTester {
    engine: Arc<Engine>,
    latch: LatchStatus,
    /// Where agents connect, and how.
    listener: DataListener,
    config: ConfigInForce,
    record: Record,
    last: Mutex<Option<ProofTest>>,
    under_way: Mutex<()>,
}

/// The data plane's listener.
#[derive(Clone, Debug)]
pub struct DataListener {
    /// Its address.
    pub address: SocketAddr,
    /// The certificate it shows, if it speaks TLS.
    pub certificate: Option<rustls::pki_types::CertificateDer<'static>>,
}

impl ProofTester {
    /// For this data plane, whose button is kept by `latch`. The last result is read from the data directory.
    pub fn new(
        engine: Arc<Engine>,
        latch: LatchStatus,
        listener: DataListener,
        config: ConfigInForce,
    ) -> ProofTester {
        let record = Record::of(&config.get().data_dir);
        let last = Mutex::new(record.read());
        ProofTester { engine, latch, listener, config, record, last, under_way: Mutex::default() }
    }

    /// When it was last done.
    pub fn tests(&self) -> ProofTests {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ProofTests { last, every_days: self.config.get().prooftest_every_days }
    }

    /// Tries it out. `wall` is the time it is written down with.
    pub fn test(&self, by: &str, wall: i64) -> Result<ProofTest, ProofTestError> {
        let _only_one = match self.under_way.try_lock() {
            Ok(only_one) => only_one,
            Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(ProofTestError::UnderWay),
        };
        let gate = self.engine.latch.view();
        if gate.state != SystemState::Running || !gate.shut.is_empty() {
            return Err(ProofTestError::NotRunning);
        }
        let drilled = self.drill();
        if self.engine.latch.view().epoch != gate.epoch {
            return Err(ProofTestError::Interrupted);
        }
        let (took_us, steps) = drilled?;
        let mut test = ProofTest { at: wall, by: by.into(), took_us, steps };
        self.engine.proof_tested(by, test.passed(), took_us);
        let begun = Instant::now();
        let kept = self.engine.journal.sync();
        test.steps.push(step(
            "journal",
            kept,
            micros(begun),
            if kept { "written and synced" } else { "it CANNOT be written" },
        ));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(test.clone());
        if let Err(error) = self.record.write(&test) {
            tracing::error!(target: "emergency", "the proof test's result cannot be kept: {error}. The journal has it.");
        }
        Ok(test)
    }

    /// Everything between the canary's first request and the opened gate.
    fn drill(&self) -> Result<(u64, Vec<ProofStep>), ProofTestError> {
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            ProofTestError::CannotBegin(format!("{what}: {error}"))
        };
        let secret = Secret::random().map_err(|error| cannot("no random numbers", &error))?;
        let upstream = CanaryUpstream::start(&secret).map_err(|error| cannot("no upstream", &error))?;
        let _let_in =
            self.engine.let_canary_in(secret.text(), upstream.port()).ok_or(ProofTestError::UnderWay)?;
        let canary = self.engine.agent(CANARY).ok_or_else(|| cannot("no agent", &"there are too many"))?;
        // Whatever was done to it before: it must work, or there is nothing to stop.
        self.engine.apply(&canary, None, EventKind::AgentActivated { by: "proof test".into() });
        let process = CanaryProcess::start().map_err(|error| cannot("no process", &format!("{error:#}")))?;
        let tool = self.engine.tools.register(process.tool());
        let tool = tool.ok_or_else(|| cannot("no tool", &"too many run"))?;
        let client = Client::new(&self.listener, &secret);
        let stream = client.stream(TIMEOUT).map_err(|error| cannot("the canary got no answer", &error))?;
        if upstream.requests() != 1 {
            return Err(cannot("the canary's request", &"did not reach its upstream"));
        }

        let stream = stream.end_beside(TIMEOUT).map_err(|error| cannot("no thread", &error))?;
        let begun = Instant::now();
        let drill = self.engine.drill();
        let mut steps = vec![trigger(drill.ended, drill.gate_us, drill.cut_us)];
        steps.push(process.told(TIMEOUT, begun));
        steps.push(ended_stream(&stream, begun));
        steps.push(closed_upstream(&upstream, begun));
        steps.push(refused(&client, &upstream, begun));
        steps.push(process.dead(begun));
        drop(tool);
        let took_us = micros(begun);
        drop(drill);
        steps.push(self.latch_takes_it());
        Ok((took_us, steps))
    }

    /// The present state, written once more.
    fn latch_takes_it(&self) -> ProofStep {
        let begun = Instant::now();
        self.engine.keep_again();
        let kept = self.latch.wait(TIMEOUT);
        let what =
            if kept { "the latch file was written and synced" } else { "the latch file CANNOT be written" };
        step("latch", kept, micros(begun), what)
    }
}

fn trigger(ended: EndedWork, gate_us: u64, cut_us: u64) -> ProofStep {
    // One stream and one process: more would be somebody else's.
    let passed = ended == EndedWork { model_calls: 1, tools: 1, messages: 0 };
    let EndedWork { model_calls, tools, messages } = ended;
    let whose = if passed { "the canary's and nobody else's" } else { "NOT just the canary's two" };
    let what = format!(
        "gate shut after {gate_us} µs; told to end: {model_calls} model calls, {tools} tools, {messages} messages: {whose}"
    );
    step("trigger", passed, cut_us, what)
}

fn ended_stream(stream: &Receiver<StreamEnd>, begun: Instant) -> ProofStep {
    // Its reader gives up by itself, so something always comes.
    let (rest, at) = stream.recv().unwrap_or_else(|_| (Err(ErrorKind::Other.into()), Instant::now()));
    let took_us = since(at, begun);
    match rest {
        Ok(rest) if rest.contains("Stopped by estop") => {
            step("stream", true, took_us, "the open stream ended with the protocol's error")
        }
        Ok(_) => step("stream", false, took_us, "the open stream ended without a reason"),
        Err(error) => step("stream", false, took_us, format!("the open stream did not end: {error}")),
    }
}

fn closed_upstream(upstream: &CanaryUpstream, begun: Instant) -> ProofStep {
    match upstream.closed(TIMEOUT) {
        Some(at) => step("upstream", true, since(at, begun), "the upstream saw its connection close"),
        None => step("upstream", false, micros(begun), "the upstream's connection stayed OPEN"),
    }
}

fn refused(client: &Client<'_>, upstream: &CanaryUpstream, begun: Instant) -> ProofStep {
    let answer = client.ask(TIMEOUT);
    let took_us = micros(begun);
    let forwarded = upstream.requests() > 1;
    match answer {
        Ok(answer) if answer.contains("Stopped by estop") && !forwarded => {
            step("gate", true, took_us, "a new request was refused and not forwarded")
        }
        Ok(_) if forwarded => step("gate", false, took_us, "a new request was FORWARDED"),
        Ok(_) => step("gate", false, took_us, "a new request was answered by something else than the button"),
        Err(error) => step("gate", false, took_us, format!("a new request got no answer: {error}")),
    }
}

fn step(name: &str, passed: bool, took_us: u64, what: impl Into<String>) -> ProofStep {
    ProofStep { name: name.into(), passed, took_us, what: what.into() }
}

fn since(at: Instant, begun: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(begun).as_micros()).unwrap_or(u64::MAX)
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    /// A data plane that forwards whatever comes, or answers by itself, and knows nothing of a button.
    fn careless(forwards_to: Option<u16>) -> DataListener {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).expect("a request");
                if let Some(port) = forwards_to {
                    let mut up = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the upstream");
                    up.write_all(&bytes[..read]).expect("forwarded");
                    let read = up.read(&mut bytes).expect("an answer");
                    stream.write_all(&bytes[..read]).expect("answered");
                } else {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("answered");
                }
            }
        });
        DataListener { address, certificate: None }
    }

    #[test]
    fn ks_2_a_proof_test_fails_when_a_request_is_forwarded_or_answered_by_something_else() {
        let secret = Secret::random().expect("random numbers");
        let upstream = CanaryUpstream::start(&secret).expect("a port");
        let listener = careless(None);
        let answered = refused(&Client::new(&listener, &secret), &upstream, Instant::now());
        assert!(!answered.passed && answered.what.contains("something else"), "{answered:?}");
        let listener = careless(Some(upstream.port()));
        let client = Client::new(&listener, &secret);
        assert!(client.ask(TIMEOUT).is_ok());
        let forwarded = refused(&client, &upstream, Instant::now());
        assert!(!forwarded.passed && forwarded.what.contains("FORWARDED"), "{forwarded:?}");
    }

    #[test]
    fn ks_2_a_proof_test_fails_when_a_connection_stays_open_or_a_stream_says_nothing() {
        let secret = Secret::random().expect("random numbers");
        let upstream = CanaryUpstream::start(&secret).expect("a port");
        assert_eq!(upstream.closed(SOON), None);
        let (tell, told) = channel();
        for end in [Ok("data: [DONE]".to_owned()), Err(ErrorKind::TimedOut.into())] {
            tell.send((end, Instant::now())).expect("somebody listens");
            assert!(!ended_stream(&told, Instant::now()).passed);
        }
        tell.send((Ok("Stopped by estop: …".to_owned()), Instant::now())).expect("somebody listens");
        assert!(ended_stream(&told, Instant::now()).passed);
    }

    #[test]
    fn ks_2_a_proof_test_fails_when_somebody_else_was_stopped_too() {
        let ended = |model_calls, tools| EndedWork { model_calls, tools, messages: 0 };
        assert!(trigger(ended(1, 1), 1, 2).passed);
        for wrong in [ended(2, 1), ended(1, 0), ended(0, 1)] {
            assert!(!trigger(wrong, 1, 2).passed, "{wrong:?}");
        }
    }
}
