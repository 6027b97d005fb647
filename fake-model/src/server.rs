//! The listening side: connections, and noticing at once when their other end goes away.

use std::io::{self, Write as _};
use std::net::TcpStream as StdTcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::connection::{Connection, Order, Shared};
use crate::service;

/// Serves until it is dropped.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&shared)))),
            // Out of descriptors, most likely: the next one may succeed.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let number = shared.log.connection_opened();
    let (orders, mut received) = mpsc::unbounded_channel();
    let connection = Arc::new(Connection { number, shared, orders, gone: watch::Sender::new(false) });
    // A second handle on the socket sees a FIN even while nothing reads from the first.
    let Ok(handle) = second_handle(&stream) else { return };
    let order = tokio::select! {
        () = serve_http(stream, Arc::clone(&connection)) => None,
        order = received.recv() => order,
        () = watch_for_end(&handle, &connection) => None,
    };
    // The select has dropped the stream: the handle is the last one, and what it does is what the other end sees.
    match order {
        None => {}
        Some(Order::Reset) => drop(socket2::SockRef::from(&handle).set_linger(Some(Duration::ZERO))),
        Some(Order::Raw(bytes)) => drop(write_raw(handle, &bytes)),
    }
}

fn second_handle(stream: &TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    TcpStream::from_std(StdTcpStream::from(stream.as_fd().try_clone_to_owned()?))
}

async fn serve_http(stream: TcpStream, connection: Arc<Connection>) {
    match connection.shared.tls.clone() {
        None => serve_on(stream, connection).await,
        // A client that does not trust the certificate is seen as a connection without requests.
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve_on(stream, connection).await;
            }
        }
    }
}

async fn serve_on<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    connection: Arc<Connection>,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(1024 * 1024);
    builder.http2().max_concurrent_streams(10_000);
    let service = service_fn(|request| service::handle(request, Arc::clone(&connection)));
    // How a connection ended is in the log.
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

/// Notes the end of the connection; returns never, as what is under way ends by itself.
async fn watch_for_end(handle: &TcpStream, connection: &Connection) {
    while let Ok(ready) = handle.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            connection.shared.log.connection_lost(connection.number);
            connection.gone.send_replace(true);
            break;
        }
        // Bytes are not ours to read: this only forgets that there are some, so that the next event wakes us.
        drop(handle.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into())));
    }
    std::future::pending::<()>().await;
}

fn write_raw(handle: TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut stream = handle.into_std()?;
    stream.set_nonblocking(false)?;
    stream.write_all(bytes)
}
