//! Tells systemd how the daemon stands (`Type=notify`, `WatchdogSec=`): ready, reloading, stopping, a status line for
//! `systemctl status`, and a sign of life while no part is stuck. Without `NOTIFY_SOCKET` nothing is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_gateway::Engine;

/// The way to the service manager.
#[derive(Clone)]
pub(crate) struct ServiceManager(Option<Arc<Socket>>);

struct Socket {
    socket: UnixDatagram,
    at: SocketAddr,
}

impl ServiceManager {
    /// The one that started this process, if any.
    pub(crate) fn of_process() -> ServiceManager {
        let path = std::env::var_os("NOTIFY_SOCKET");
        ServiceManager(path.and_then(|path| Socket::open(path.as_encoded_bytes())).map(Arc::new))
    }

    /// Everything is open and in force.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// It ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
    }

    fn tell(&self, state: &str) {
        if let Some(Socket { socket, at }) = self.0.as_deref() {
            // A manager that does not listen is told nothing; estop goes on.
            let _ = socket.send_to_addr(state.as_bytes(), at);
        }
    }
}

impl Socket {
    fn open(path: &[u8]) -> Option<Socket> {
        let at = match path.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name).ok()?,
            None => SocketAddr::from_pathname(std::str::from_utf8(path).ok()?).ok()?,
        };
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Socket { socket, at })
    }
}

/// Gives the sign of life that `WatchdogSec=` asks for, until it is dropped.
pub(crate) struct SignsOfLife {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignsOfLife {
    /// Begins, if the manager asks this process for it.
    pub(crate) fn start(
        manager: &ServiceManager,
        engine: Arc<Engine>,
    ) -> std::io::Result<Option<SignsOfLife>> {
        let Some(every) = watchdog_interval(|name| std::env::var(name).ok(), std::process::id()) else {
            return Ok(None);
        };
        let (manager, (stop, stopped)) = (manager.clone(), channel::<()>());
        let run = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // While a part is stuck nothing is told: the manager starts estop anew, if it is asked to.
                if engine.heartbeats.stuck().is_empty() {
                    manager.tell("WATCHDOG=1");
                }
            }
        };
        let thread = std::thread::Builder::new().name("estop-alive".into()).spawn(run)?;
        Ok(Some(SignsOfLife { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for SignsOfLife {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Half of what the manager waits for; `None` if it does not wait for this process.
fn watchdog_interval(variable: impl Fn(&str) -> Option<String>, pid: u32) -> Option<Duration> {
    if variable("WATCHDOG_PID").is_some_and(|asked| asked != pid.to_string()) {
        return None;
    }
    let within: u64 = variable("WATCHDOG_USEC")?.parse().ok()?;
    (within > 0).then(|| Duration::from_micros(within / 2).max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ob_1_a_sign_of_life_comes_twice_in_the_time_that_is_waited_for() {
        let interval = |pid: Option<&str>, usec: Option<&str>| {
            let variable = |name: &str| match name {
                "WATCHDOG_PID" => pid.map(str::to_owned),
                _ => usec.map(str::to_owned),
            };
            watchdog_interval(variable, 7)
        };
        assert_eq!(interval(None, Some("10000000")), Some(Duration::from_secs(5)));
        assert_eq!(interval(Some("7"), Some("10000000")), Some(Duration::from_secs(5)));
        assert_eq!(interval(Some("8"), Some("10000000")), None, "it is another process that is waited for");
        assert_eq!(
            (interval(None, None), interval(None, Some("0")), interval(None, Some("x"))),
            (None, None, None)
        );
    }

    #[test]
    fn ob_1_a_socket_by_path_and_by_abstract_name_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        let told = |manager: ServiceManager, listener: &UnixDatagram| {
            manager.ready("listening");
            let mut text = [0; 64];
            let len = listener.recv(&mut text).expect("a message");
            String::from_utf8_lossy(&text[..len]).into_owned()
        };
        let manager = |path: &[u8]| ServiceManager(Socket::open(path).map(Arc::new));
        assert_eq!(
            told(manager(path.as_os_str().as_encoded_bytes()), &listener),
            "READY=1\nSTATUS=listening"
        );
        let name = format!("estop-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let listener = UnixDatagram::bind_addr(&address).expect("a socket");
        assert_eq!(told(manager(format!("@{name}").as_bytes()), &listener), "READY=1\nSTATUS=listening");
    }
}
