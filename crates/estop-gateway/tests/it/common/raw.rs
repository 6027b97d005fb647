//! An upstream that is no HTTP server: it records every byte, counts requests the strict way, and answers with the
//! bytes it is given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A request, as it came.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    /// The number of its connection, from 0.
    pub connection: usize,
    /// Request line and header lines, without the blank line.
    pub head: String,
    /// The body, out of its framing.
    pub body: Vec<u8>,
}

impl RawRequest {
    /// A header's values, by lower-case name.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").skip(1);
        let pairs = lines.filter_map(|line| line.split_once(':'));
        pairs.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    /// The request line.
    pub fn line(&self) -> &str {
        self.head.split("\r\n").next().unwrap_or_default()
    }
}

/// What came.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Complete requests.
    pub requests: Vec<RawRequest>,
    /// Every byte of every connection, in order of arrival.
    pub bytes: Vec<u8>,
    /// What a strict server would not have taken.
    pub faults: Vec<String>,
    /// Connections accepted.
    pub connections: usize,
}

/// Answers a request; called with the socket, the request and how many came before it.
pub type Answer = dyn Fn(&mut TcpStream, &RawRequest, usize) + Send + Sync;

/// The upstream. Stops accepting when dropped.
pub struct Raw {
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
    stop: Arc<AtomicBool>,
}

impl Raw {
    /// Answers every request with these bytes and keeps the connection.
    pub fn saying(answer: impl Into<Vec<u8>>) -> Raw {
        let answer = answer.into();
        Raw::start(move |socket, _, _| drop(socket.write_all(&answer)))
    }

    /// Answers every request with these bytes and closes the connection.
    pub fn saying_then_closing(answer: impl Into<Vec<u8>>) -> Raw {
        let answer = answer.into();
        Raw::start(move |socket, _, _| {
            drop(socket.write_all(&answer));
            drop(socket.shutdown(std::net::Shutdown::Both));
        })
    }

    /// Answers by a function.
    pub fn start(answer: impl Fn(&mut TcpStream, &RawRequest, usize) + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log: Arc<Mutex<Log>> = Arc::default();
        let stop: Arc<AtomicBool> = Arc::default();
        let (kept, stopped, answer) = (Arc::clone(&log), Arc::clone(&stop), Arc::new(answer));
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (log, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                let connection = {
                    let mut log = log.lock().unwrap();
                    log.connections += 1;
                    log.connections - 1
                };
                std::thread::spawn(move || serve(socket, connection, &log, &*answer));
            }
        });
        Raw { address, log, stop }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What came so far.
    pub fn log(&self) -> Log {
        self.log.lock().unwrap().clone()
    }

    /// Forgets what came.
    pub fn reset(&self) {
        let mut log = self.log.lock().unwrap();
        (log.requests, log.bytes, log.faults) = Default::default();
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut socket: TcpStream, connection: usize, log: &Mutex<Log>, answer: &Answer) {
    let _ = socket.set_nodelay(true);
    let mut reading = Reading { buffer: Vec::new(), connection };
    loop {
        let request = match reading.request(&mut socket, log) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(fault) => {
                log.lock().unwrap().faults.push(fault);
                return;
            }
        };
        let before = {
            let mut log = log.lock().unwrap();
            if !reading.buffer.is_empty() {
                let more = String::from_utf8_lossy(&reading.buffer).into_owned();
                log.faults.push(format!("more bytes than one request: {more:?}"));
            }
            log.requests.push(request.clone());
            log.requests.len() - 1
        };
        answer(&mut socket, &request, before);
    }
}

struct Reading {
    buffer: Vec<u8>,
    connection: usize,
}

impl Reading {
    fn more(&mut self, socket: &mut TcpStream, log: &Mutex<Log>) -> bool {
        let mut piece = [0; 16 << 10];
        match socket.read(&mut piece) {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.buffer.extend_from_slice(&piece[..n]);
                log.lock().unwrap().bytes.extend_from_slice(&piece[..n]);
                true
            }
        }
    }

    /// The next request; `None` if the connection ended before one was whole.
    fn request(&mut self, socket: &mut TcpStream, log: &Mutex<Log>) -> Result<Option<RawRequest>, String> {
        let end = loop {
            match super::http::find(&self.buffer, b"\r\n\r\n") {
                Some(end) => break end,
                None if self.more(socket, log) => {}
                None => return Ok(None),
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        let mut request = RawRequest { connection: self.connection, head, body: Vec::new() };
        let length = framing(&request)?;
        let body = match length {
            Some(length) => {
                while self.buffer.len() < length {
                    if !self.more(socket, log) {
                        return Ok(None);
                    }
                }
                Some(self.buffer.drain(..length).collect())
            }
            None => self.chunked(socket, log)?,
        };
        Ok(body.map(|body| {
            request.body = body;
            request
        }))
    }

    fn line(&mut self, socket: &mut TcpStream, log: &Mutex<Log>) -> Option<String> {
        loop {
            if let Some(end) = super::http::find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 2);
                return Some(line);
            }
            if !self.more(socket, log) {
                return None;
            }
        }
    }

    fn chunked(&mut self, socket: &mut TcpStream, log: &Mutex<Log>) -> Result<Option<Vec<u8>>, String> {
        let mut body = Vec::new();
        loop {
            let Some(line) = self.line(socket, log) else { return Ok(None) };
            let hex = !line.is_empty() && line.bytes().all(|b| b.is_ascii_hexdigit());
            let size = usize::from_str_radix(&line, 16).ok().filter(|_| hex);
            let Some(size) = size else { return Err(format!("chunk size {line:?}")) };
            while self.buffer.len() < size + 2 {
                if !self.more(socket, log) {
                    return Ok(None);
                }
            }
            body.extend(self.buffer.drain(..size));
            if self.buffer.drain(..2).as_slice() != b"\r\n" {
                return Err("a chunk without an end, or trailers".into());
            }
            if size == 0 {
                return Ok(Some(body));
            }
        }
    }
}

/// The body's length; `None` if it is chunked. Nothing that could be understood in two ways.
fn framing(request: &RawRequest) -> Result<Option<usize>, String> {
    let bad = |why: &str| Err(format!("{why}: {:?}", request.head));
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if request.head.replace("\r\n", "").contains(['\r', '\n', '\0']) {
        return bad("stray line ends");
    }
    for line in request.head.split("\r\n").skip(1) {
        match line.split_once(':') {
            Some((name, _)) if !name.is_empty() && name.bytes().all(token) => {}
            _ => return bad("a line that is no header"),
        }
    }
    if request.line().split(' ').count() != 3 || !request.line().ends_with(" HTTP/1.1") {
        return bad("request line");
    }
    if request.values("host").len() != 1 {
        return bad("not exactly one Host");
    }
    let (lengths, codings) = (request.values("content-length"), request.values("transfer-encoding"));
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Some(0)),
        ([length], []) if length.bytes().all(|b| b.is_ascii_digit()) => {
            length.parse().map(Some).map_err(|_| format!("content-length {length:?}"))
        }
        ([], ["chunked"]) => Ok(None),
        _ => bad("framed in two ways"),
    }
}
