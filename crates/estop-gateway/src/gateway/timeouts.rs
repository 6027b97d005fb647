//! Two threads that look after time. No request carries a timer of its own.
//!
//! The sweeper ends requests and connections that do not move, and closes what lingers after a cut. It takes no agent's lock
//! and waits for nobody, so that nothing keeps it from closing. The timer wakes agents whose time has come, for which it
//! needs their locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use estop_core::event::AbortedBy;
use estop_core::system::Channel;
use estop_core::time::Millis;
use estop_wire::refusal::Kind;

use super::workers::Workers;
use crate::emergency_stop::connection::Waiting;
use crate::emergency_stop::in_flight::{Cut, InFlightRequest, Phase};
use crate::engine::Engine;
use crate::exchange::worker::Worker;
use crate::settings::Limits;
use crate::upstream::Upstream;
use crate::upstream::relays::Relay;

/// How often it looks. Chosen: a time limit of a run trips within 1 s (CB-5), a lingering client is gone within 0.5 s.
const INTERVAL: Duration = Duration::from_millis(250);
/// Sweeps after which a request that was cut and is still here is ended with its connection: between half a second and
/// three quarters. Less, and a busy worker has had no time to tell its client; more, and a kill takes over a second.
const LINGER_SWEEPS: u8 = 2;
/// A client connection without a request is closed after this time.
const IDLE_MAX_MS: u64 = 120_000;

/// Wakes agents until `stop` is set.
pub(crate) fn run_timer(engine: &Engine, stop: &AtomicBool) {
    let heartbeat = engine.heartbeats.add("timer", engine.clock.mono());
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(INTERVAL);
        engine.tick();
        heartbeat.beat(engine.clock.mono());
    }
}

/// Sweeps until `stop` is set.
pub(super) fn run(engine: &Engine, workers: &Workers, stop: &AtomicBool) {
    let heartbeat = engine.heartbeats.add("sweeper", engine.clock.mono());
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(INTERVAL);
        let now = engine.clock.mono();
        heartbeat.beat(now);
        let gate = engine.latch.view();
        // What is shut holds no connection either (KS-2, KS-10).
        let tend = |upstream: &Upstream, channel| {
            if gate.lets_pass(channel) { upstream.sweep(now) } else { upstream.close_idle() }
        };
        let workers: Vec<Arc<Worker>> = workers.each().map(|worker| worker.get()).collect();
        let Some(limits) = workers.first().map(|worker| worker.limits) else { continue };
        engine
            .agents
            .for_each(|agent| agent.in_flight_requests.for_each(|flight| sweep_flight(flight, now, &limits)));
        for worker in workers {
            worker.connections.for_each(|connection| {
                let late = match connection.waiting(now) {
                    Waiting::No => false,
                    Waiting::ForHead(ms) => ms > millis(limits.header_timeout),
                    Waiting::Idle(ms) => ms > IDLE_MAX_MS,
                };
                if late {
                    connection.close();
                }
            });
            worker.upstreams.values().for_each(|upstream| tend(upstream, Channel::Llm));
            let relays = worker.relays.values().flat_map(Relay::upstreams);
            relays.for_each(|upstream| tend(upstream, Channel::Messaging));
            worker.mcp.values().for_each(|server| tend(server.upstream(), Channel::Tools));
        }
    }
}

fn sweep_flight(flight: &InFlightRequest, now: Millis, limits: &Limits) {
    // Told a while ago and still here: its client does not read, or its worker does not run.
    if flight.lingers() >= LINGER_SWEEPS {
        flight.connection.abort();
        return;
    }
    let (phase, still_ms) = flight.standing(now);
    let overdue = |limit: Duration| still_ms > millis(limit);
    let cut = match phase {
        Phase::Reading if overdue(limits.body_idle_timeout) => {
            let message = "The request body did not arrive in time: the client stopped sending.";
            Some(late(AbortedBy::Client, Kind::BadRequest { status: 408 }, "body_timeout", message))
        }
        Phase::Connecting if overdue(limits.connect_timeout) => {
            Some(upstream_late(flight, "did not accept a connection in time"))
        }
        Phase::Awaiting if overdue(limits.first_byte_timeout) => {
            Some(upstream_late(flight, "did not begin to answer in time"))
        }
        Phase::Streaming if overdue(limits.stream_idle_timeout) => {
            Some(upstream_late(flight, "stopped in the middle of its answer"))
        }
        Phase::Writing if overdue(limits.client_write_timeout) => {
            let message = "The client did not take its answer in time.";
            Some(late(AbortedBy::Client, Kind::BadRequest { status: 408 }, "client_timeout", message))
        }
        Phase::Reading
        | Phase::Judging
        | Phase::Connecting
        | Phase::Awaiting
        | Phase::Streaming
        | Phase::Writing => None,
    };
    if let Some(cut) = cut {
        flight.cut(cut);
    }
}

fn upstream_late(flight: &InFlightRequest, what: &str) -> Cut {
    let message = format!("{} {what} (estop did not block this).", flight.upstream_name);
    late(AbortedBy::Upstream, Kind::Upstream { status: 504 }, "upstream_timeout", &message)
}

fn late(by: AbortedBy, kind: Kind, code: &'static str, message: &str) -> Cut {
    Cut { by, kind, code, message: message.to_owned() }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
