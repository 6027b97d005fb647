//! The ports estop would listen on, looked at while none runs.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use estop_config::Listen;

use super::{Area, Finding};

const AREA: Area = Area("ports");

pub(super) fn check(listen: &Listen) -> Vec<Finding> {
    [("listen.data", listen.data), ("listen.admin", listen.admin)].map(|(key, at)| one(key, at)).into()
}

/// Whether the address could be listened on. It is let go at once.
fn one(key: &str, address: SocketAddr) -> Finding {
    if address.port() == 0 {
        return AREA.ok(format!("{key} takes any free port"));
    }
    let port = address.port();
    match TcpListener::bind(address) {
        Ok(_) => AREA.ok(format!("{key}: {address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => AREA.wrong(
            format!("{key}: {address} is taken by another program, or by an estop of another data directory"),
            format!("`ss -ltnp sport = :{port}` says who has it; end that, or set {key} to another port"),
        ),
        Err(error) => AREA.wrong(
            format!("{key}: estop cannot listen on {address}: {error}"),
            format!("set {key} to an address of this machine and a port of 1024 or more"),
        ),
    }
}
