//! Opens many streams at once through a proxy and holds them: memory of ten thousand open streams, and how long it takes
//! until the last one ends.
//!
//! Usage: `open_streams 127.0.0.1:4100 10000 [http2]`. Prints `open N` when every stream has begun, then waits for all of
//! them to end and prints `ended N MS`, the time from the first end to the last. `bench/streams/run.py` drives it.
//! With `http2`, a hundred streams share a connection, without TLS.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Streams that are being opened at the same time.
const OPENING: usize = 64;
/// Each agent may have this many requests under way.
const STREAMS_PER_AGENT: usize = 100;
/// Streams on one connection of HTTP/2: what servers usually allow; estop allows 256.
const STREAMS_PER_CONNECTION: usize = 100;

/// How the streams come.
enum Way {
    /// Each by a connection of its own.
    One,
    /// Many by a connection.
    Two(Vec<http2::SendRequest<Full<Bytes>>>),
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr =
        arguments.next().context("usage: open_streams ADDRESS COUNT")?.parse().context("ADDRESS")?;
    let count: usize = arguments.next().context("COUNT is missing")?.parse().context("COUNT")?;
    let is_two = arguments.next().is_some_and(|word| word == "http2");
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(address, count, is_two))
}

#[derive(Default)]
struct Tally {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

async fn run(address: SocketAddr, count: usize, is_two: bool) -> anyhow::Result<()> {
    let way = Arc::new(if is_two { Way::Two(connect(address, count).await?) } else { Way::One });
    let tally = Arc::new(Tally::default());
    let opening = Arc::new(Semaphore::new(OPENING));
    for number in 0..count {
        let permit = Arc::clone(&opening).acquire_owned().await?;
        let tally = Arc::clone(&tally);
        let way = Arc::clone(&way);
        tokio::spawn(async move {
            let done = match &*way {
                Way::One => stream(address, number, &tally, permit).await,
                Way::Two(connections) => {
                    let connection = connections[number / STREAMS_PER_CONNECTION].clone();
                    stream_by_two(connection, number, &tally, permit).await
                }
            };
            if let Err(error) = done {
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
    let (agent, body) = question(number);
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

/// Who asks, and what.
fn question(number: usize) -> (usize, String) {
    let body = format!(
        r#"{{"model":"fake-endless","stream":true,"messages":[{{"role":"user","content":"Write about number {number}."}}]}}"#
    );
    (number / STREAMS_PER_AGENT, body)
}

/// The connections for so many streams.
async fn connect(address: SocketAddr, count: usize) -> anyhow::Result<Vec<http2::SendRequest<Full<Bytes>>>> {
    let mut connections = Vec::new();
    for _ in 0..count.div_ceil(STREAMS_PER_CONNECTION) {
        let socket = TokioIo::new(TcpStream::connect(address).await.context("connect")?);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), socket).await.context("handshake")?;
        // Its streams tell how it ended.
        tokio::spawn(async move { drop(connection.await) });
        connections.push(sender);
    }
    Ok(connections)
}

/// One stream of a shared connection, from its request to its end.
async fn stream_by_two(
    mut connection: http2::SendRequest<Full<Bytes>>,
    number: usize,
    tally: &Tally,
    permit: tokio::sync::OwnedSemaphorePermit,
) -> anyhow::Result<()> {
    let (agent, body) = question(number);
    let request =
        hyper::Request::post(format!("http://127.0.0.1/agents/agent-{agent}/openai/v1/chat/completions"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
    let mut answer = connection.send_request(request).await.context("request")?;
    if answer.status() != 200 {
        let status = answer.status();
        let why = answer.collect().await.context("refused")?.to_bytes();
        anyhow::bail!("refused: {status} {}", String::from_utf8_lossy(&why[..why.len().min(300)]));
    }
    answer.frame().await.context("no first byte")?.context("first byte")?;
    tally.begun.fetch_add(1, Ordering::Relaxed);
    drop(permit);
    // A reset is an end too.
    while let Some(Ok(_)) = answer.frame().await {}
    Ok(())
}

fn say(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    std::io::stdout().flush().context("cannot write the answer")
}
