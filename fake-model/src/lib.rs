//! A model server that does as it is told: what tests, benchmarks and the demo talk to instead of a provider.
//!
//! It speaks every protocol estop understands, plain and streamed, over HTTP/1.1 and HTTP/2, with or without TLS; it
//! answers by rule, by the model's name or by a small dialogue with tool calls; and it tells what it saw.
//!
//! ```no_run
//! let model = estop_fake_model::FakeModel::start(Default::default())?;
//! model.script(serde_json::from_str(r#"[{"times": 1, "reply": {"status": 529}}]"#)?);
//! println!("talk to {}", model.url());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it never does: connect to anything, or judge a request.

mod answer;
mod ask;
mod body;
mod connection;
mod control;
mod dialogue;
mod encoding;
mod framing;
mod jobs;
mod models;
mod protocols;
mod schema;
mod seen;
mod server;
mod service;
mod tls;
mod tools;

pub mod script;

pub use answer::{Finish, ToolCall, ToolKind, Usage};
pub use seen::{Connections, Outcome, Seen};

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use crate::connection::Shared;
use crate::script::{Rule, Script};
use crate::seen::Log;

/// How to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 is any free port.
    pub listen: SocketAddr,
    /// With TLS, and a certificate of its own making.
    pub tls: bool,
    /// Worker threads.
    pub threads: usize,
    /// Rules to begin with.
    pub rules: Vec<Rule>,
    /// How many requests are remembered; older ones are forgotten, their numbers stay taken.
    pub requests_kept: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: false,
            threads: 1,
            rules: Vec::new(),
            requests_kept: 10_000,
        }
    }
}

/// A running model server; stops when dropped.
pub struct FakeModel {
    addr: SocketAddr,
    certificate_pem: Option<String>,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeModel {
    /// Starts on threads of its own.
    ///
    /// # Errors
    /// If the address cannot be listened on, or threads or certificate cannot be made.
    pub fn start(options: Options) -> io::Result<Self> {
        let tls = if options.tls { Some(tls::self_signed()?) } else { None };
        let (acceptor, certificate_pem) = tls.map(|tls| (tls.acceptor, tls.certificate_pem)).unzip();
        let shared = Arc::new(Shared::new(Log::new(options.requests_kept), acceptor));
        shared.script(|script| *script = Script::new(options.rules));

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("fake-model")
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std_mpsc::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("fake-model".to_owned()).spawn(move || {
            runtime.block_on(async {
                match listen(options.listen) {
                    Ok((listener, addr)) => {
                        drop(tell.send(Ok(addr)));
                        let accepting = tokio::spawn(server::accept(listener, served));
                        // Dropping the sender is as good as sending.
                        drop(stopped.await);
                        accepting.abort();
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?;
        let addr = told.recv().map_err(io::Error::other)??;
        Ok(Self { addr, certificate_pem, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:PORT`, or `https://`.
    pub fn url(&self) -> String {
        let scheme = if self.certificate_pem.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.addr)
    }

    /// The certificate to trust, with TLS.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.certificate_pem.as_deref()
    }

    /// Replaces the rules.
    pub fn script(&self, rules: Vec<Rule>) {
        self.shared.script(|script| *script = Script::new(rules));
    }

    /// Every request will get this reply.
    pub fn always(&self, reply: script::Reply) {
        self.script(vec![Rule { reply, ..Rule::default() }]);
    }

    /// Forgets rules and requests.
    pub fn reset(&self) {
        self.script(Vec::new());
        self.shared.log.reset();
    }

    /// The requests that are remembered, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.log.all()
    }

    /// Request number `number`, from 1.
    pub fn request(&self, number: u64) -> Option<Seen> {
        self.shared.log.request(number)
    }

    /// How many requests came, remembered or not.
    pub fn requests(&self) -> u64 {
        self.shared.log.requests()
    }

    /// TCP connections accepted, and open at this moment.
    pub fn connections(&self) -> Connections {
        self.shared.log.connections()
    }

    /// Waits until so many requests have come.
    pub fn wait_for_requests(&self, count: u64, timeout: Duration) -> bool {
        self.shared.log.wait(timeout, |log| (log.requests() >= count).then_some(())).is_some()
    }

    /// Waits until request `number` has ended; tells how.
    pub fn wait_for_end(&self, number: u64, timeout: Duration) -> Option<Seen> {
        let has_ended = |seen: &Seen| seen.outcome != Outcome::Open;
        self.shared.log.wait(timeout, |log| log.request(number).filter(has_ended))
    }

    /// Waits until the connection of request `number` is closed.
    pub fn wait_for_close(&self, number: u64, timeout: Duration) -> bool {
        let is_closed = |log: &Log| {
            let seen = log.request(number)?;
            (!log.is_connection_open(seen.connection)).then_some(())
        };
        self.shared.log.wait(timeout, is_closed).is_some()
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to return, and a panic there was printed there.
            drop(thread.join());
        }
    }
}

fn listen(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    // Benchmarks open ten thousand connections at once.
    let listener = socket.listen(4096)?;
    let addr = listener.local_addr()?;
    Ok((listener, addr))
}
