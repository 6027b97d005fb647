//! The one place where an upstream connection is made. Host and port come from the configuration.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::UpstreamConnection;
use super::slots::Slot;
use super::{Upstream, UpstreamError};
use crate::emergency_stop::socket::SocketStream;

/// One address of several may be dead; the next one is tried after this time.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(4);

impl Upstream {
    /// Makes a new connection. Dropping the future abandons it, in whatever phase it is.
    pub(super) async fn dial(&self) -> Result<UpstreamConnection, UpstreamError> {
        let slot = Slot::take(&self.shared).await.ok_or(UpstreamError::Crowded)?;
        let stream = SocketStream::new(self.connect().await?, &self.shared.clock);
        let socket = stream.handle();
        let connection = match &self.ready.tls {
            None => UpstreamConnection::new(stream, socket, slot).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| unreachable(&self.ready.authority, "TLS", &error))?;
                UpstreamConnection::new(stream, socket, slot).await
            }
        };
        connection.map_err(|error| UpstreamError::broken(&error))
    }

    /// Tries the addresses of the host in turn.
    async fn connect(&self) -> Result<TcpStream, UpstreamError> {
        let provider = &self.ready.provider;
        let addresses = tokio::net::lookup_host((&*provider.host, provider.port))
            .await
            .map_err(|error| unreachable(&self.ready.authority, "name lookup", &error))?;
        let mut last = UpstreamError::Unreachable(format!("{}: no address found", self.ready.authority));
        for address in addresses {
            let connected = timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await;
            match connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    // Without it, small writes wait for the peer's delayed acknowledgement: 40 ms.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => last = unreachable(&self.ready.authority, "connect", &error),
            }
        }
        Err(last)
    }
}

fn unreachable(authority: &str, what: &str, error: &std::io::Error) -> UpstreamError {
    UpstreamError::Unreachable(format!("{authority}: {what} failed: {error}"))
}
