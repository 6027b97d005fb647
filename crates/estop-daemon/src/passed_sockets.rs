//! Sockets that the service manager opened and passes on (`LISTEN_FDS`, as `systemd.socket` does): connections that come while
//! estop is started anew wait in the kernel, and nobody is refused.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;
use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};

/// Those that nobody has taken so far.
pub struct PassedSockets(Vec<(SocketAddr, TcpListener)>);

impl PassedSockets {
    /// What this process was passed.
    pub fn of_process() -> anyhow::Result<PassedSockets> {
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..passed.len() {
            let wrong = || {
                format!("socket {index} of LISTEN_FDS cannot be used: estop takes TCP sockets that listen")
            };
            let socket = passed.take_tcp_listener(index).with_context(wrong)?.with_context(wrong)?;
            // Programs that estop starts do not get it.
            fcntl_setfd(&socket, FdFlags::CLOEXEC).with_context(wrong)?;
            socket.set_nonblocking(true).with_context(wrong)?;
            sockets.push((socket.local_addr().with_context(wrong)?, socket));
        }
        Ok(PassedSockets(sockets))
    }

    /// The one that listens on this address. Its address decides who may connect, so it must be the configuration's.
    pub fn take(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let at = self.0.iter().position(|(passed, _)| *passed == address)?;
        Some(self.0.swap_remove(at).1)
    }

    /// One that is left would be listened on by nobody.
    pub fn all_taken(&self, data: SocketAddr, admin: SocketAddr) -> anyhow::Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((address, _)) => anyhow::bail!(
                "the service manager passes a socket on {address}, but listen.data is {data} and listen.admin is {admin}: \
                 make ListenStream= of the socket unit and the configuration the same"
            ),
        }
    }
}
