//! Listening: one socket for each worker on the same address, and what a connection becomes.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::dispatch;
use super::phase::{Phase, while_serving};
use super::workers::CurrentWorker;
use crate::body::response_body::ResponseBody;
use crate::emergency_stop::connection::{Connection, Watched};
use crate::emergency_stop::socket::{AbortableSocket, SocketStream};
use crate::exchange::worker::Worker;

/// Connections the kernel may hold for us. As large as Linux usually allows.
const BACKLOG: i32 = 4096;
/// Requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Out of descriptors: wait for some to come back instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Header lines that hyper takes by itself. Told the same number it would make room for them anew with each request.
const HEADERS_USUAL: usize = 100;
/// Connections beyond the maximum that are told so at once, by each worker; more are only closed. Each takes a descriptor,
/// and small limits have few: one for so many connections that are allowed, and at most so many.
const REFUSED_PER: usize = 128;
const REFUSED_MAX: usize = 16;
/// The most that is written into one HTTP/2 stream before it is flushed; bounds memory of clients that do not read.
const SEND_BUFFER: usize = 64 << 10;

/// A listening socket for each of the workers, at least one, and where they listen. `passed`: somebody opened it already, and
/// all share it.
pub(crate) fn open(
    address: SocketAddr,
    passed: Option<std::net::TcpListener>,
    workers: usize,
) -> io::Result<(SocketAddr, Vec<std::net::TcpListener>)> {
    let is_passed = passed.is_some();
    let first = match passed {
        Some(passed) => passed,
        None => {
            check_free(address)?;
            bind(address)?
        }
    };
    let address = first.local_addr()?;
    let mut sockets = Vec::new();
    for _ in 1..workers {
        sockets.push(if is_passed { first.try_clone()? } else { bind(address)? });
    }
    sockets.push(first);
    Ok((address, sockets))
}

/// Whether somebody listens there already. The workers' sockets share their address, and would share it with another
/// estop too, unnoticed.
fn check_free(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1)
}

/// Opens a listening socket that others may share (each worker has its own; the kernel spreads connections).
fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts for ever. `graceful` ends connections after the answers in progress.
pub(super) async fn accept(
    listener: TcpListener,
    current: Arc<CurrentWorker>,
    graceful: &GracefulShutdown,
    phases: watch::Receiver<Phase>,
) {
    let refused: Arc<AtomicUsize> = Arc::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Without it, small writes wait for the client's delayed acknowledgement: 40 ms.
        let _ = stream.set_nodelay(true);
        let worker = current.get();
        if let Some(permit) = Permit::take(&worker.open, worker.limits.connections) {
            let end = End { graceful: graceful.watcher(), phases: phases.clone() };
            drop(tokio::spawn(connection(stream, Arc::clone(&current), permit, end)));
            continue;
        }
        // Whoever comes again finds a place, if somebody holds one without using it.
        worker.connections.close_longest_idle(worker.engine.clock.mono());
        let refused_max = (worker.limits.connections / REFUSED_PER).clamp(1, REFUSED_MAX);
        // By TLS nothing can be said before the handshake, which costs more than there is.
        if worker.tls.is_none()
            && let Some(permit) = Permit::take(&refused, refused_max)
        {
            drop(tokio::spawn(shed(stream, permit)));
        }
    }
}

/// One of the connections that may be open at once.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn take(open: &Arc<AtomicUsize>, max: usize) -> Option<Permit> {
        let room = |open: usize| (open < max).then_some(open + 1);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Permit(Arc::clone(open)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Too many connections: says so and hangs up.
async fn shed(mut stream: TcpStream, _place: Permit) {
    const BODY: &str = "estop has too many open connections: try again, or raise limits.connections \
        (`estop doctor` says whether the limit of open files allows it).\n";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nx-estop-reason: overload\r\nretry-after: 1\r\n\
         content-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{BODY}",
        BODY.len()
    );
    // Closed with its request unread, the connection would be reset before the answer is seen.
    let tell = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(Duration::from_secs(1), tell).await;
}

/// How a connection learns that estop ends.
struct End {
    /// Before its first request.
    phases: watch::Receiver<Phase>,
    /// Afterwards.
    graceful: Watcher,
}

async fn connection(stream: TcpStream, current: Arc<CurrentWorker>, permit: Permit, end: End) {
    let End { mut phases, graceful } = end;
    let worker = current.get();
    let patience = worker.limits.header_timeout;
    match &worker.tls {
        Some(acceptor) => {
            let stream = SocketStream::new(stream, &worker.engine.clock);
            let socket = stream.handle();
            let handshake = timeout(patience, acceptor.accept(stream));
            let Some(Ok(Ok(stream))) = while_serving(&mut phases, handshake).await else { return };
            let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve(stream, socket, is_two, current, permit, graceful);
        }
        None => {
            let first_bytes = timeout(patience, speaks_two(&stream));
            let Some(Ok(Ok(is_two))) = while_serving(&mut phases, first_bytes).await else { return };
            let stream = SocketStream::new(stream, &worker.engine.clock);
            let socket = stream.handle();
            serve(stream, socket, is_two, current, permit, graceful);
        }
    }
}

/// Whether the client opens with the preface of HTTP/2. No method of HTTP/1.1 begins like it.
async fn speaks_two(stream: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut start = [0; PREFACE.len()];
    let mut pause = Duration::from_millis(5);
    let mut seen = 0;
    loop {
        let length = stream.peek(&mut start).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !PREFACE.starts_with(&start[..length]) {
            return Ok(false);
        }
        if length == PREFACE.len() {
            return Ok(true);
        }
        if length == seen {
            // Peeking again sees the same bytes until more arrive, so the next look waits a moment.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
        seen = length;
    }
}

fn serve<S>(
    stream: S,
    socket: Weak<AbortableSocket>,
    is_two: bool,
    current: Arc<CurrentWorker>,
    permit: Permit,
    graceful: Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let worker = current.get();
    let (now, heartbeat) = (worker.engine.clock.mono(), Arc::clone(&worker.heartbeat));
    let connection = Arc::new(Connection::new(!is_two, now, socket, heartbeat));
    let listed = worker.connections.add(Arc::clone(&connection));
    let (served, clock) = (Arc::clone(&connection), Arc::clone(&worker.engine.clock));
    let watched = Watched { stream, connection: served, clock };
    let task = tokio::spawn(async move {
        if is_two {
            two(watched, current, graceful).await;
        } else {
            one(watched, current, graceful).await;
        }
        drop((listed, permit));
    });
    connection.hold(task.abort_handle());
}

/// Speaks HTTP/1.1 to its end. A connection that ends with an error ends; whatever was under way on it settles itself.
async fn one<S>(watched: Watched<S>, current: Arc<CurrentWorker>, graceful: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = current.get().limits;
    let mut builder = http1::Builder::new();
    builder
        .header_read_timeout(None)
        // Head and body are one small piece, mostly: copied together they cost less than a list of two.
        .writev(false)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(8 << 10));
    if limits.headers != HEADERS_USUAL {
        builder.max_headers(limits.headers);
    }
    let connection = Arc::clone(&watched.connection);
    let service = service_fn(move |request| boxed(current.get(), request, &connection));
    let mut connection = builder.serve_connection(TokioIo::new(watched), service);
    // What has come is read before it learns of an end: one of which nothing was read is closed.
    let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut connection).poll(cx))).await;
    if first.is_pending() {
        let _ = graceful.watch(connection).await;
    }
}

/// The same of HTTP/2.
async fn two<S>(watched: Watched<S>, current: Arc<CurrentWorker>, graceful: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = current.get().limits;
    let connection = Arc::clone(&watched.connection);
    let service = service_fn(move |request| boxed(current.get(), request, &connection));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BUFFER)
        .serve_connection(TokioIo::new(watched), service);
    let _ = graceful.watch(connection).await;
}

type Serving = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

/// One request's way. Boxed: its connection would keep the room for as long as it streams the answer.
fn boxed(worker: Arc<Worker>, request: Request<Incoming>, connection: &Arc<Connection>) -> Serving {
    let busy = connection.begin(&worker.engine.clock);
    Box::pin(async move { Ok(dispatch::serve(&worker, request.into(), busy).await) })
}
