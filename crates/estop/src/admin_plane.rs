//! The admin plane: API for people on its own port, and for the owner of the data directory on a socket beside it.
//!
//! It has a thread and a runtime of its own, so that a busy data plane does not keep anybody from the button.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use estop_admin::{Admin, Seat};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The owner's socket in the data directory.
const SOCKET: &str = "estop.sock";
/// How long requests under way may take when estop ends.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(1);
/// Connections of people at once, on each door: what agents open here must not use up the descriptors.
const CONNECTIONS_MAX: usize = 128;
/// A request's head must come within this time, the first and each after it.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Without descriptors nothing can be accepted; a moment later perhaps.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Where the owner's socket of a data directory is.
pub fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join(SOCKET)
}

/// The doors, open but not served yet.
pub struct Doors {
    network: TcpListener,
    owner: UnixListener,
}

impl Doors {
    /// Opens both. Only the owner of the data directory can open the socket.
    pub fn open(address: SocketAddr, data_dir: &Path) -> anyhow::Result<Doors> {
        let network = TcpListener::bind(address)
            .with_context(|| format!("listen.admin: cannot listen on {address}"))?;
        network.set_nonblocking(true)?;
        let path = socket(data_dir);
        // One that is left is of a process that is gone: this one holds the database's lock.
        if std::fs::symlink_metadata(&path).is_ok_and(|about| about.file_type().is_socket()) {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let owner =
            UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        owner.set_nonblocking(true)?;
        Ok(Doors { network, owner })
    }

    /// Where people connect.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.network.local_addr()?)
    }

    /// Serves both until the plane is dropped.
    pub fn serve(self, admin: Admin, data_dir: &Path) -> anyhow::Result<AdminPlane> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let work = move || {
            let served = runtime.block_on(self.serve_until(&admin, stopped));
            runtime.shutdown_timeout(SHUTDOWN_WITHIN);
            if let Err(error) = served {
                eprintln!("estop: the admin plane ended: {error:#}");
            }
        };
        let thread = std::thread::Builder::new().name("estop-admin".into()).spawn(work)?;
        Ok(AdminPlane { stop, thread: Some(thread), socket: socket(data_dir) })
    }

    async fn serve_until(self, admin: &Admin, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let network = tokio::net::TcpListener::from_std(self.network)?;
        let owner = tokio::net::UnixListener::from_std(self.owner)?;
        tokio::select! {
            () = serve_network(&network, admin.router()) => {}
            () = serve_owner(&owner, admin.router_for_owner()) => {}
            _ = stopped.changed() => {}
        }
        Ok(())
    }
}

async fn serve_network(listener: &tokio::net::TcpListener, router: Router) {
    let mut places = Places::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                places.seat(|seat| {
                    serve(stream, router.clone().layer(Extension(ConnectInfo(peer))).layer(Extension(seat)))
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

async fn serve_owner(listener: &tokio::net::UnixListener, router: Router) {
    let mut places = Places::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => places.seat(|seat| serve(stream, router.clone().layer(Extension(seat)))),
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
}

/// The connections of a door, oldest first. Somebody who comes to press the button always finds a place: when all are
/// taken, the oldest connection gives its own. Lines to supervisors keep theirs, and take none of the others'.
#[derive(Default)]
struct Places(VecDeque<(AbortHandle, Seat)>);

impl Places {
    fn seat(&mut self, serve: impl FnOnce(Seat) -> AbortHandle) {
        if self.0.len() >= CONNECTIONS_MAX {
            self.0.retain(|(seated, _)| !seated.is_finished());
        }
        let taken = self.0.iter().filter(|(_, seat)| !seat.is_kept()).count();
        if taken >= CONNECTIONS_MAX
            && let Some(at) = self.0.iter().position(|(_, seat)| !seat.is_kept())
            && let Some((oldest, _)) = self.0.remove(at)
        {
            oldest.abort();
        }
        let seat = Seat::default();
        let serving = serve(seat.clone());
        self.0.push_back((serving, seat));
    }
}

/// Serves one connection.
fn serve<S>(stream: S, router: Router) -> AbortHandle
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let serving = tokio::spawn(async move {
        let service = TowerToHyperService::new(router);
        // A connection that ends with an error ends; its client knows.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
    serving.abort_handle()
}

/// The admin plane while it is served. Dropping it closes its doors.
pub struct AdminPlane {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
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
