//! The canary's upstream: begins an answer, never ends it, and sees when its connection closes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::client::Secret;

/// The beginning of a stream, as a model sends it.
const ANSWER: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const CHUNK: &str = "data: {\"id\":\"canary\",\"object\":\"chat.completion.chunk\",\"model\":\"canary\",\
    \"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"tweet\"}}]}\n\n";
/// The canary's request has some hundred bytes.
const REQUEST_MAX: usize = 16 << 10;
/// A connection that says nothing for so long is not the canary's.
const PATIENCE: Duration = Duration::from_secs(30);

/// An upstream on a port of this machine. Dropping it closes the port.
pub(super) struct CanaryUpstream {
    port: u16,
    seen: Arc<Seen>,
    stopping: Arc<AtomicBool>,
}

#[derive(Default)]
struct Seen {
    what: Mutex<What>,
    bell: Condvar,
}

#[derive(Default)]
struct What {
    requests: usize,
    closed: Option<Instant>,
}

impl CanaryUpstream {
    /// Listens. Only requests with the canary's word in them are counted: others on this machine may knock.
    pub(super) fn start(secret: &Secret) -> io::Result<CanaryUpstream> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (seen, stopping): (Arc<Seen>, Arc<AtomicBool>) = Default::default();
        let (word, at_work, end) = (secret.word().to_owned(), Arc::clone(&seen), Arc::clone(&stopping));
        let accept = move || {
            for stream in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), word, seen) = (stream, word.clone(), Arc::clone(&at_work)) else { continue };
                let serve = move || drop(seen.serve(stream, &word));
                // Without a thread nobody answers, and the test says so.
                drop(std::thread::Builder::new().name("estop-canary-up".into()).spawn(serve));
            }
        };
        std::thread::Builder::new().name("estop-canary-up".into()).spawn(accept)?;
        Ok(CanaryUpstream { port, seen, stopping })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// How many requests of the canary came.
    pub(super) fn requests(&self) -> usize {
        self.seen.what.lock().unwrap_or_else(PoisonError::into_inner).requests
    }

    /// When the canary's connection was closed, if it was within this time.
    pub(super) fn closed(&self, within: Duration) -> Option<Instant> {
        let what = self.seen.what.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |what: &mut What| what.closed.is_none();
        let waited = self.seen.bell.wait_timeout_while(what, within, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }
}

impl Drop for CanaryUpstream {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl Seen {
    fn serve(&self, mut stream: TcpStream, word: &str) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut request = Vec::new();
        let mut bytes = [0; 4096];
        while !contains(&request, word.as_bytes()) {
            let read = stream.read(&mut bytes)?;
            if read == 0 || request.len() > REQUEST_MAX {
                return Ok(());
            }
            request.extend_from_slice(&bytes[..read]);
        }
        self.what.lock().unwrap_or_else(PoisonError::into_inner).requests += 1;
        let begun = format!("{ANSWER}{:x}\r\n{CHUNK}\r\n", CHUNK.len());
        stream.write_all(begun.as_bytes())?;
        // Nothing more comes until it is closed, however that looks from here.
        while matches!(stream.read(&mut bytes), Ok(read) if read > 0) {}
        self.what.lock().unwrap_or_else(PoisonError::into_inner).closed.get_or_insert_with(Instant::now);
        self.bell.notify_all();
        Ok(())
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}
