//! The admin plane: API for people on its own port, and for the owner of the data directory on a socket beside it.
//!
//! It has a thread and a runtime of its own, so that a busy data plane does not keep anybody from the button.

mod connection_slots;
mod drained;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use axum::extract::ConnectInfo;
use axum::middleware::map_request;
use axum::{Extension, Router};
use estop_config::data_dir::socket;
use estop_config::descriptors::Shares;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use connection_slots::ConnectionSlots;
use drained::drained;

/// How long requests under way may take when estop ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// A request's head must come within this time, the first and each after it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// What could not be accepted can perhaps a moment later.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// This process, or the machine, has no descriptor left.
const EMFILE: i32 = nix::errno::Errno::EMFILE as i32;
const ENFILE: i32 = nix::errno::Errno::ENFILE as i32;
/// Connections the kernel may hold for us: a kill waits among them in a flood, and is not turned away.
const BACKLOG: i32 = 4096;

/// The listeners, open but not served yet.
pub struct AdminListeners {
    network: TcpListener,
    owner: UnixListener,
    shares: Shares,
}

impl AdminListeners {
    /// Opens both. Only the owner of the data directory can open the socket. `passed`: the service manager opened the port.
    pub fn open(
        address: SocketAddr,
        passed: Option<TcpListener>,
        data_dir: &Path,
        shares: Shares,
    ) -> anyhow::Result<AdminListeners> {
        let network = match passed {
            Some(passed) => passed,
            None => listen(address).with_context(|| format!("listen.admin: cannot listen on {address}"))?,
        };
        let path = socket(data_dir);
        // One that is left is of a process that is gone: this one holds the database's lock.
        if std::fs::symlink_metadata(&path).is_ok_and(|about| about.file_type().is_socket()) {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let owner = bind_owner(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(AdminListeners { network, owner, shares })
    }

    /// Where people connect.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.network.local_addr()?)
    }

    /// Serves both until the plane is dropped: `network` on the port, `owner` on the socket.
    pub fn serve(self, network: Router, owner: Router, data_dir: &Path) -> anyhow::Result<AdminPlane> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let (rebind, rebound) = watch::channel(0);
        let path = socket(data_dir);
        let work = move || {
            let served = runtime.block_on(self.serve_until(network, owner, stopped, rebound, &path));
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
            if let Err(error) = served {
                tracing::error!(target: "serve", "the admin plane ended: {error:#}");
            }
        };
        let thread = std::thread::Builder::new().name("estop-admin".into()).spawn(work)?;
        Ok(AdminPlane { stop, rebind, thread: Some(thread), socket: socket(data_dir) })
    }

    async fn serve_until(
        self,
        network_router: Router,
        owner_router: Router,
        mut stopped: watch::Receiver<bool>,
        rebound: watch::Receiver<u64>,
        path: &Path,
    ) -> anyhow::Result<()> {
        let network = tokio::net::TcpListener::from_std(self.network)?;
        let owner = tokio::net::UnixListener::from_std(self.owner)?;
        tokio::select! {
            () = serve_network(&network, network_router, self.shares.places) => {}
            () = serve_owner(owner, owner_router, self.shares.places, rebound, path) => {}
            _ = stopped.changed() => {}
        }
        Ok(())
    }
}

async fn serve_network(listener: &tokio::net::TcpListener, router: Router, max: usize) {
    let mut places = ConnectionSlots::new(max);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                places.seat(|seat| {
                    serve(stream, router.clone().layer(Extension(ConnectInfo(peer))).layer(Extension(seat)))
                });
            }
            Err(error) => make_room(&mut places, &error).await,
        }
        // Whoever was accepted is heard before the next one is: a flood must not take the place of a kill that has come.
        tokio::task::yield_now().await;
    }
}

async fn serve_owner(
    mut listener: tokio::net::UnixListener,
    router: Router,
    max: usize,
    mut rebind: watch::Receiver<u64>,
    path: &Path,
) {
    let mut places = ConnectionSlots::new(max);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Ok(()) = rebind.changed() => {
                // Asked for again as long as it is not there.
                if let Ok(fresh) = bind_owner(path).and_then(tokio::net::UnixListener::from_std) {
                    listener = fresh;
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, _)) => places.seat(|seat| serve(stream, router.clone().layer(Extension(seat)))),
            Err(error) => make_room(&mut places, &error).await,
        }
        tokio::task::yield_now().await;
    }
}

/// A connection could not be accepted. Without descriptors one is given up for it; otherwise it is tried again in a moment.
async fn make_room(places: &mut ConnectionSlots, error: &std::io::Error) {
    let is_short = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
    if !is_short || !places.make_room() {
        tokio::time::sleep(ACCEPT_AGAIN).await;
    }
}

/// Serves one connection.
fn serve<S>(stream: S, router: Router) -> AbortHandle
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let serving = tokio::spawn(async move {
        let service = TowerToHyperService::new(router.layer(map_request(async |request| drained(request))));
        // A connection that ends with an error ends; its client knows.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
    serving.abort_handle()
}

/// Listens for people.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Listens for the owner of the data directory, who alone can open the socket. It gets its name once it is listened on and
/// closed to others: whoever finds it can connect.
fn bind_owner(path: &Path) -> std::io::Result<UnixListener> {
    let unnamed = path.with_extension("new");
    // Left behind by an estop that was killed here.
    match std::fs::remove_file(&unnamed) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let owner = UnixListener::bind(&unnamed)?;
    std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(0o600))?;
    owner.set_nonblocking(true)?;
    // Unlike a rename, this fails if something is in its place.
    let named = std::fs::hard_link(&unnamed, path);
    std::fs::remove_file(&unnamed)?;
    named.map(|()| owner)
}

/// The admin plane while it is served. Dropping it closes its listeners.
pub struct AdminPlane {
    stop: watch::Sender<bool>,
    rebind: watch::Sender<u64>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

impl AdminPlane {
    /// For whoever notices that the owner's socket is gone.
    pub fn rebinder(&self) -> Rebinder {
        Rebinder(self.rebind.clone())
    }
}

/// Has the owner's socket made anew.
#[derive(Clone)]
pub struct Rebinder(watch::Sender<u64>);

impl Rebinder {
    /// Makes it anew, if there is nothing in its place.
    pub fn rebind(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

impl Drop for AdminPlane {
    fn drop(&mut self) {
        // Nobody listens any more if the plane has ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // Whatever became of it, it said so.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}
