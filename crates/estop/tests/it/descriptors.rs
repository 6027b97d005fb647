//! Descriptors: whatever agents open, whoever comes to press the button finds one (KS-2, ST-3), at the admin port and at the
//! owner's socket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::house::{Estop, House, PATIENCE, until};

/// A provider that begins every answer and ends none.
struct Endless {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Endless {
    fn start() -> Endless {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let held = Arc::clone(&streams);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let begun = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\ne\r\ndata: {\"id\":1}\n\r\n";
                let mut some = [0; 512];
                // Its request first: an answer before it would be nobody's.
                if stream.read(&mut some).is_ok_and(|read| read > 0) && stream.write_all(begun).is_ok() {
                    stream.set_nonblocking(true).unwrap();
                    held.lock().unwrap().push(stream);
                }
            }
        });
        Endless { address, streams }
    }

    /// How many requests it still answers; those whose connection was closed are forgotten.
    fn open(&self) -> usize {
        let mut streams = self.streams.lock().unwrap();
        let mut some = [0; 65_536];
        streams.retain_mut(|stream| match stream.read(&mut some) {
            Ok(read) => read > 0,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        streams.len()
    }
}

/// Opens connections of every kind and holds them, until it is dropped; those that are closed are opened anew.
struct Attack {
    over: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

const STREAM: &str = "{\"model\":\"gpt-4o-mini\",\"max_tokens\":5,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";

impl Attack {
    fn start(address: SocketAddr, each: usize, kinds: &[usize]) -> Attack {
        let (over, opened): (Arc<AtomicBool>, Arc<AtomicUsize>) = (Arc::default(), Arc::default());
        let mut threads = Vec::new();
        for kind in kinds.iter().copied() {
            let (over, opened) = (Arc::clone(&over), Arc::clone(&opened));
            threads.push(std::thread::spawn(move || {
                let mut held: Vec<TcpStream> = Vec::new();
                let mut nth = 0;
                while !over.load(Ordering::Relaxed) {
                    held.retain_mut(is_open);
                    while held.len() < each && !over.load(Ordering::Relaxed) {
                        nth += 1;
                        held.extend(open(address, kind, nth));
                        opened.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            }));
        }
        Attack { over, opened, threads }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

const IDLE: usize = 0;
const STREAMS: usize = 1;
const UPLOADS: usize = 2;

/// A connection of this kind; uploads do not end.
fn open(address: SocketAddr, kind: usize, nth: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    let agent = nth % 50;
    let said = match kind {
        IDLE => String::new(),
        STREAMS => format!(
            "POST /agents/s{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{STREAM}",
            STREAM.len()
        ),
        _ => format!(
            "POST /agents/u{agent}/openai/v1/files HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/octet-stream\r\ncontent-length: 1000000\r\n\r\nfirst bytes"
        ),
    };
    stream.write_all(said.as_bytes()).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

fn is_open(stream: &mut TcpStream) -> bool {
    let mut some = [0; 4096];
    match stream.read(&mut some) {
        Ok(read) => read > 0 && !some.starts_with(b"HTTP/1.1 5"),
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// Kills by the admin port, as `curl` would; the answer.
fn kill_by_port(admin: &str, token: &str) -> std::io::Result<String> {
    let address = admin.trim_start_matches("http://");
    let mut stream = TcpStream::connect_timeout(&address.parse().unwrap(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = "{\"reason\":\"manual\"}";
    write!(
        stream,
        "POST /api/emergency/kill HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn descriptors(estop: &Estop) -> u64 {
    std::fs::read_dir(format!("/proc/{}/fd", estop.process.id())).unwrap().count() as u64
}

/// This process holds the other ends.
fn raise_own_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

fn unlock(house: &House) {
    house.estop(&["emergency", "restart"]).is(0, "SAFE_MODE");
    house.estop(&["emergency", "clear"]).is(0, "RUNNING");
}

fn button_works_under_attack(limit: u64) {
    raise_own_limit();
    let (house, provider) = (House::new(""), Endless::start());
    let config = format!(
        "listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}\nproviders: {{openai: {{base_url: \"http://{}\"}}}}\n",
        provider.address
    );
    std::fs::write(house.folder.path().join("estop.yaml"), config).unwrap();
    let estop = house.start_with_files(limit);
    let note = estop.told("Note: ");
    assert!(note.starts_with(&format!("{limit} open files are allowed: at most ")), "{note}");
    let admin = estop.admin().to_owned();
    let token = estop.token();
    let each = limit as usize;
    let streams = Attack::start(estop.address, each, &[STREAMS]);
    until("streams", || provider.open() > 0);
    let others = Attack::start(estop.address, each, &[IDLE, UPLOADS]);
    let is_wave = |attack: &Attack, count| attack.opened.load(Ordering::Relaxed) >= count;
    until("a whole wave", || is_wave(&streams, each) && is_wave(&others, 2 * each));
    let used = descriptors(&estop);
    assert!(used < limit, "{used} of {limit}");

    let answer = kill_by_port(&admin, &token).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"shutdown\""), "{answer}");
    until("every stream to end", || provider.open() == 0);
    unlock(&house);
    let before = streams.opened.load(Ordering::Relaxed);
    until("another wave", || is_wave(&streams, before + each));
    let (status, answer) = house.owner("POST", "/api/emergency/kill", "{}");
    assert!(status == 200 && answer.contains("\"shutdown\""), "{answer}");
    until("every stream to end", || provider.open() == 0);
    let used = descriptors(&estop);
    assert!(used < limit, "{used} of {limit}");
    drop((streams, others));
}

#[test]
fn ks_2_the_button_works_when_80_descriptors_are_wanted_by_agents() {
    button_works_under_attack(80);
}

#[test]
fn ks_2_the_button_works_when_256_descriptors_are_wanted_by_agents() {
    button_works_under_attack(256);
}

#[test]
fn ks_2_the_button_works_when_1024_descriptors_are_wanted_by_agents() {
    button_works_under_attack(1024);
}

#[test]
fn st_3_a_limit_that_leaves_nothing_for_agents_is_refused_with_the_one_that_would_do() {
    let house = House::new("");
    let ran = Command::new("prlimit")
        .args(["--nofile=40:40", env!("CARGO_BIN_EXE_estop"), "serve", "--data-dir", "data"])
        .current_dir(house.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        !ran.status.success() && said.contains("only 40 open files are allowed, and estop needs"),
        "{said}"
    );
}

/// Connects as fast as it goes, holds the newest connections, and sends what `says` tells.
fn flood(address: SocketAddr, over: &Arc<AtomicBool>, says: &'static str) -> JoinHandle<usize> {
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        let mut held = std::collections::VecDeque::new();
        let mut count = 0;
        while !over.load(Ordering::Relaxed) {
            if let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
                count += 1;
                let _ = stream.write_all(says.as_bytes());
                held.push_back(stream);
            }
            if held.len() > 500 {
                held.pop_front();
            }
        }
        count
    })
}

#[test]
fn ks_2_a_flood_of_connects_to_the_admin_port_keeps_no_kill_from_being_served() {
    raise_own_limit();
    let house = House::new("");
    let estop = house.start_with_files(256);
    let admin = estop.admin().to_owned();
    let token = estop.token();
    let address = admin.trim_start_matches("http://").parse().unwrap();
    let over: Arc<AtomicBool> = Arc::default();
    let floods = [
        // Says nothing, begins a head, asks without a right to, and begins a body.
        flood(address, &over, ""),
        flood(address, &over, "GET /api/agents HTTP/1.1\r\nhost: "),
        flood(address, &over, "GET /api/agents HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        flood(
            address,
            &over,
            "POST /api/emergency/kill HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: 900\r\n\r\n{",
        ),
    ];
    for nth in 0..10 {
        let answer = kill_by_port(&admin, &token);
        assert!(answer.as_ref().is_ok_and(|said| said.starts_with("HTTP/1.1 200")), "{nth}: {answer:?}");
    }
    over.store(true, Ordering::Relaxed);
    let count: usize = floods.into_iter().map(|flood| flood.join().unwrap()).sum();
    assert!(count > 100, "{count} connections are no flood");
}
