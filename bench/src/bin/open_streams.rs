//! Opens many streams at once through a proxy and holds them: memory of ten thousand open streams, and how long it takes
//! until the last one ends.
//!
//! Usage: `open_streams 127.0.0.1:4100 10000`. Prints `open N` when every stream has begun, then waits for all of them to
//! end and prints `ended N MS`, the time from the first end to the last. `bench/streams/run.py` drives it.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Streams that are being opened at the same time.
const OPENING: usize = 64;
/// Each agent may have this many requests under way.
const STREAMS_PER_AGENT: usize = 100;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr =
        arguments.next().context("usage: open_streams ADDRESS COUNT")?.parse().context("ADDRESS")?;
    let count: usize = arguments.next().context("COUNT is missing")?.parse().context("COUNT")?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(address, count))
}

#[derive(Default)]
struct Tally {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

async fn run(address: SocketAddr, count: usize) -> anyhow::Result<()> {
    let tally = Arc::new(Tally::default());
    let opening = Arc::new(Semaphore::new(OPENING));
    for number in 0..count {
        let permit = Arc::clone(&opening).acquire_owned().await?;
        let tally = Arc::clone(&tally);
        tokio::spawn(async move {
            if let Err(error) = stream(address, number, &tally, permit).await {
                eprintln!("stream {number}: {error:#}");
            }
            tally.ended.fetch_add(1, Ordering::Relaxed);
        });
    }
    let reached = |counter: &AtomicUsize, wanted| counter.load(Ordering::Relaxed) >= wanted;
    while !reached(&tally.begun, count) && !reached(&tally.ended, 1) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say(&format!("open {}", tally.begun.load(Ordering::Relaxed)))?;
    while !reached(&tally.ended, 1) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let first = Instant::now();
    while !reached(&tally.ended, count) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    say(&format!("ended {count} {}", first.elapsed().as_millis()))
}

/// One stream, from its request to its end.
async fn stream(
    address: SocketAddr,
    number: usize,
    tally: &Tally,
    permit: tokio::sync::OwnedSemaphorePermit,
) -> anyhow::Result<()> {
    let mut socket = TcpStream::connect(address).await.context("connect")?;
    let body = format!(
        r#"{{"model":"fake-endless","stream":true,"messages":[{{"role":"user","content":"Write about number {number}."}}]}}"#
    );
    let agent = number / STREAMS_PER_AGENT;
    let head = format!(
        "POST /agents/agent-{agent}/openai/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    let mut piece = [0; 2048];
    let first = socket.read(&mut piece).await.context("first byte")?;
    let ok = piece[..first].starts_with(b"HTTP/1.1 200");
    anyhow::ensure!(ok, "refused: {}", String::from_utf8_lossy(&piece[..first.min(200)]));
    tally.begun.fetch_add(1, Ordering::Relaxed);
    drop(permit);
    // The last chunk is an end, and so is a reset; the connection may live on.
    loop {
        match socket.read(&mut piece).await {
            Ok(n) if n > 0 && !piece[..n].ends_with(b"0\r\n\r\n") => {}
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    std::io::stdout().flush().context("cannot write the answer")
}
