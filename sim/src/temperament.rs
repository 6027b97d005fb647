//! How agents behave: from the steady worker to pure chaos. A temperament only decides what an agent does next;
//! what becomes of it is the world's business.

mod chaos;
mod fast;
mod gated;
mod hooked;
mod lifecycle;
mod loopers;
pub mod mind;
mod people;
mod workers;

use estop_core::event::{AbortedBy, Ended, EventKind, RequestReceived, ToolRequested, Usage};
use estop_core::fingerprint::ResponseFingerprint;
use estop_core::ids::{Hash64, Name};

use crate::prng::Rng;
use mind::Mind;

/// The temperaments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Asks, calls tools, answers; each step is new.
    Steady,
    /// A person talks to it, turn by turn.
    Chatter,
    /// Asks for the same thing until its answer changes.
    Poller,
    /// One template, many items.
    Batch,
    /// Works at night, rarely.
    Night,
    /// Works, sleeps for long, wakes.
    Sleeper,
    /// Large requests.
    Spender,
    /// Small requests under a tight budget.
    Tight,
    /// Many requests at once.
    FanOut,
    /// The same call with the same result.
    Looper,
    /// Two to four calls in a circle.
    PingPong,
    /// The same failure with other arguments.
    Churner,
    /// Faster and faster.
    Sprinter,
    /// Asks again at once when refused.
    RetryStorm,
    /// Tools and prompts by hook, beside its requests.
    Hooked,
    /// The same tool call by hook.
    HookLooper,
    /// Starts, ends and extends runs, legal or not.
    Lifecycle,
    /// A person who cannot decide: on, off, pause, resume, other rules.
    Admin,
    /// Any event with any number.
    Chaos,
    /// Tools behind the gate of an MCP server, which a hook saw or did not. Not in [`Kind::ALL`]: it takes part where it
    /// is asked for, so that the runs of old seeds stay as they are.
    Gated,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 19] = [
        Kind::Steady,
        Kind::Chatter,
        Kind::Poller,
        Kind::Batch,
        Kind::Night,
        Kind::Sleeper,
        Kind::Spender,
        Kind::Tight,
        Kind::FanOut,
        Kind::Looper,
        Kind::PingPong,
        Kind::Churner,
        Kind::Sprinter,
        Kind::RetryStorm,
        Kind::Hooked,
        Kind::HookLooper,
        Kind::Lifecycle,
        Kind::Admin,
        Kind::Chaos,
    ];

    /// Whether none of what it does is a loop.
    pub fn is_healthy(self) -> bool {
        match self {
            Kind::Steady
            | Kind::Chatter
            | Kind::Poller
            | Kind::Batch
            | Kind::Night
            | Kind::Sleeper
            | Kind::Spender
            | Kind::Tight
            | Kind::FanOut
            | Kind::Sprinter
            | Kind::RetryStorm
            | Kind::Hooked
            | Kind::Gated
            | Kind::Lifecycle
            | Kind::Admin => true,
            Kind::Looper | Kind::PingPong | Kind::Churner | Kind::HookLooper | Kind::Chaos => false,
        }
    }
}

/// What an agent does at one moment, and how long it rests afterwards.
#[derive(Clone, Debug)]
pub struct Act {
    /// In this order, each in its run.
    pub deeds: Vec<(Option<Name>, Deed)>,
    /// Until its next act.
    pub rest_ms: u64,
}

/// One thing an agent does.
#[derive(Clone, Debug)]
pub enum Deed {
    /// It sends a request; this is what will become of it if it is let through.
    Ask(RequestReceived, Plan),
    /// It calls a tool, and a hook sees it.
    Tool(ToolRequested, ToolPlan),
    /// Something that nothing follows from.
    Plain(EventKind),
}

/// What will become of a request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the answer says.
    pub answer: ResponseFingerprint,
    /// How it ends.
    pub ended: Ended,
    /// What it uses.
    pub usage: Usage,
    /// How long it takes.
    pub took_ms: u64,
    /// How it gets there.
    pub fate: Fate,
}

/// How a request gets to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// One answer.
    Plain,
    /// In pieces, then complete.
    Streamed {
        /// How many.
        pieces: u64,
    },
    /// In pieces, then broken off.
    Aborted {
        /// How many.
        pieces: u64,
        /// Who broke it off.
        by: AbortedBy,
    },
    /// It repeats itself.
    Chants,
    /// Never heard of again.
    Lost,
    /// Its end is told twice.
    Twice,
    /// Its end is told after everybody gave it up.
    TooLate,
}

/// What will become of a tool call.
#[derive(Clone, Copy, Debug)]
pub struct ToolPlan {
    /// What comes out.
    pub result: Hash64,
    /// How it ends.
    pub ended: Ended,
    /// How long it takes; `None` = nobody tells that it ended.
    pub took_ms: Option<u64>,
}

/// What an agent does next. `refused` is whether its last ask was.
pub fn act(mind: &mut Mind, refused: bool, rng: &mut Rng) -> Act {
    match mind.kind {
        Kind::Steady | Kind::Spender | Kind::Tight => workers::steady(mind, rng),
        Kind::Chatter => workers::chatter(mind, rng),
        Kind::Poller => workers::poller(mind, refused, rng),
        Kind::Batch => workers::batch(mind, rng),
        Kind::Night => workers::night(mind, rng),
        Kind::Sleeper => workers::sleeper(mind, rng),
        Kind::FanOut => fast::fan_out(mind, rng),
        Kind::Looper => loopers::looper(mind, rng),
        Kind::PingPong => loopers::ping_pong(mind, rng),
        Kind::Churner => loopers::churner(mind, rng),
        Kind::Sprinter => fast::sprinter(mind, rng),
        Kind::RetryStorm => fast::retry_storm(mind, refused, rng),
        Kind::Hooked => hooked::hooked(mind, rng),
        Kind::HookLooper => hooked::looper(mind, rng),
        Kind::Lifecycle => lifecycle::lifecycle(mind, rng),
        Kind::Admin => people::admin(mind, rng),
        Kind::Chaos => chaos::chaos(mind, rng),
        Kind::Gated => gated::gated(mind, rng),
    }
}
