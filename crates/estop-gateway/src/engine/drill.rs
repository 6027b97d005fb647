//! The canary: a reserved agent on which the stop is tried out while everybody else works (proof test).
//!
//! It goes the way every request goes, to an upstream of estop's own on this machine. Nobody else can be it: its name is
//! refused to others, and its provider is there for a drill only, for whoever has that drill's secret.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use estop_core::operator::EndedWork;
use estop_wire::protocol::Family;
use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};

use super::Engine;
use super::switch::micros;
use crate::settings::{Auth, Provider};
use crate::upstream::{ProviderTarget, Upstream};

/// Its name.
pub const AGENT: &str = estop_core::system::proof_test::CANARY;
/// Its provider's name in the path.
pub const PROVIDER: &str = "estop-canary";
/// Carries the drill's secret; like all of estop's own headers it does not travel on.
pub const HEADER: HeaderName = HeaderName::from_static("x-estop-canary");

/// Where the canary is, if it is in.
#[derive(Default)]
pub(crate) struct DrillGate(Mutex<Option<Inside>>);

struct Inside {
    secret: [u8; 32],
    upstream: Arc<Upstream>,
}

impl DrillGate {
    /// The canary's upstream, for a request that names it and has the secret.
    pub(crate) fn admits(&self, provider: &str, headers: &HeaderMap) -> Option<Arc<Upstream>> {
        if provider != PROVIDER {
            return None;
        }
        let secret = digest(headers.get(HEADER)?.as_bytes());
        // Hashes are compared: how long it takes says nothing about the secret.
        self.lock()
            .as_ref()
            .filter(|inside| inside.secret == secret)
            .map(|inside| Arc::clone(&inside.upstream))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inside>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// The canary is in until this is dropped.
pub struct LetIn(Arc<Engine>);

impl Drop for LetIn {
    fn drop(&mut self) {
        *self.0.drill_gate.lock() = None;
    }
}

/// The gate is shut to the canary until this is dropped, whatever becomes of whoever holds it.
pub struct Drill {
    engine: Arc<Engine>,
    /// What was told to end: the canary's, and nobody else's.
    pub ended: EndedWork,
    /// Until the gate was shut, in microseconds.
    pub gate_us: u64,
    /// Until everything of the canary's was told to end.
    pub cut_us: u64,
}

impl Drop for Drill {
    fn drop(&mut self) {
        self.engine.latch.end_drill();
    }
}

impl Engine {
    /// Lets the canary in, for one drill: with this secret it reaches an upstream on this machine's port. `None` if it is
    /// in already.
    pub fn let_canary_in(self: &Arc<Self>, secret: &str, port: u16) -> Option<LetIn> {
        let provider = Provider {
            family: Family::OpenAi,
            tls: false,
            host: "127.0.0.1".into(),
            port,
            base_path: "".into(),
            auth: Auth::None,
            key: None,
            ca: None,
        };
        // A plain address has nothing that could be wrong with it.
        let ready = ProviderTarget::new(PROVIDER, provider).ok()?;
        let mut drill_gate = self.drill_gate.lock();
        if drill_gate.is_some() {
            return None;
        }
        let upstream = Upstream::new(Arc::new(ready), &self.upstream);
        *drill_gate = Some(Inside { secret: digest(secret.as_bytes()), upstream });
        Some(LetIn(Arc::clone(self)))
    }

    /// Presses the button for the canary alone: the same gate word, the same search for what is under way.
    pub fn drill(self: &Arc<Self>) -> Drill {
        let begun = Instant::now();
        self.latch.begin_drill();
        // Made at once: from here on it ends with whoever holds it.
        let mut drill = Drill {
            engine: Arc::clone(self),
            ended: EndedWork::default(),
            gate_us: micros(begun),
            cut_us: 0,
        };
        drill.ended = self.end(|agent| self.gate(agent));
        drill.cut_us = micros(begun);
        drill
    }
}
