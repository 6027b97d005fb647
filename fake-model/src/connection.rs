//! A connection and its requests, as everybody sees them who answers.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::jobs::Jobs;
use crate::script::Script;
use crate::seen::{Log, Outcome};

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) log: Log,
    script: Mutex<Script>,
    jobs: Mutex<Jobs>,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Shared {
    pub(crate) fn new(log: Log, tls: Option<TlsAcceptor>) -> Self {
        Self { log, script: Mutex::default(), jobs: Mutex::default(), tls }
    }

    pub(crate) fn script<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn jobs<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> T {
        change(&mut self.jobs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the script wants done to a whole connection.
pub(crate) enum Order {
    /// Reset it: RST instead of FIN.
    Reset,
    /// Write these bytes past HTTP and close.
    Raw(Vec<u8>),
}

/// A connection, as its requests see it.
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) gone: watch::Sender<bool>,
}

impl Connection {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn order(&self, order: Order) {
        // A connection that is over needs no orders.
        drop(self.orders.send(order));
    }

    /// Returns when the other end is gone.
    pub(crate) async fn gone(&self) {
        if self.gone.subscribe().wait_for(|gone| *gone).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn aborted(&self, request: u64) {
        self.shared.log.end(request, Outcome::Aborted);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.log.connection_closed(self.number);
    }
}

/// A request under way; dropped before its end, the client went away.
pub(crate) struct Ticket {
    number: u64,
    connection: Arc<Connection>,
}

impl Ticket {
    pub(crate) fn new(number: u64, connection: Arc<Connection>) -> Self {
        Self { number, connection }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.connection.shared.log.sent(self.number, bytes);
    }

    pub(crate) fn end(self, outcome: Outcome) {
        self.connection.shared.log.end(self.number, outcome);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.connection.shared.log.end(self.number, Outcome::Gone);
    }
}
