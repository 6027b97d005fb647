//! Descriptors: how many this process may have open, and how they are shared out, so that whoever comes to press the button
//! always finds one (KS-2, ST-3).
//!
//! Every connection takes one, of an agent, to a provider and of a person. Agents get what is left once everything that
//! the button needs is set aside, and half of that is for their connections to providers.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// What a running estop has open for itself: standard streams, listeners, runtimes, the database and those who read it, the
/// tail, the latch, triggers, a proof test. 35 when idle; the rest is opened now and then.
const OWN: u64 = 52;
/// What each worker thread has open: listener and runtime, and a connection that was accepted and has no place yet.
const EACH_WORKER: u64 = 6;
/// An alert channel sends one message at a time: its connection, and the lookup of its name.
const EACH_CHANNEL: u64 = 2;
/// Connections of people, at each of the two doors.
const PLACES: (u64, u64) = (2, 128);
/// Lines to supervisors of `estop run` and `estop mcp`.
const LINES: (u64, u64) = (2, 1024);
/// With fewer connections of agents there is nothing to serve.
const CONNECTIONS_MIN: u64 = 4;

/// How the descriptors of this process are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Connections of agents; as many to providers.
    pub connections: usize,
    /// Connections of people at the admin port, and as many at the owner's socket.
    pub places: usize,
    /// Lines to supervisors.
    pub lines: usize,
}

/// There are not even enough for a few agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "only {limit} open files are allowed, and estop needs {needed}: the emergency stop must never be short of them. \
     Raise the hard limit (`ulimit -Hn`, `LimitNOFILE=` of a service)"
)]
pub struct TooFew {
    /// What is allowed.
    pub limit: u64,
    /// What estop needs at the least.
    pub needed: u64,
}

/// Worker threads of the data plane: one for each core.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Raises the limit as far as it goes; what it is then.
pub fn raise() -> u64 {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Not being allowed to is no reason not to serve: what counts is read below.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    // Where the limit cannot be asked for there is none.
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// The limit estop would raise its own to.
pub fn hard_limit() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard)
}

impl Shares {
    /// Shares out `limit` descriptors.
    pub fn of(limit: u64, workers: usize, alert_channels: usize) -> Result<Shares, TooFew> {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        // Connections a worker refuses at once; the data plane has no more (`gateway/listener.rs`).
        let refused = (limit / 256).clamp(1, 16);
        let own = OWN
            .saturating_add(count(workers).saturating_mul(EACH_WORKER + refused))
            .saturating_add(count(alert_channels).saturating_mul(EACH_CHANNEL));
        let least = 2 * PLACES.0 + LINES.0 + 2 * CONNECTIONS_MIN;
        let rest = limit.saturating_sub(own);
        if rest < least {
            return Err(TooFew { limit, needed: own.saturating_add(least) });
        }
        let places = (rest / 16).clamp(PLACES.0, PLACES.1);
        let lines = (rest / 16).clamp(LINES.0, LINES.1);
        let connections = rest.saturating_sub(2 * places + lines) / 2;
        let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(Shares { connections: number(connections), places: number(places), lines: number(lines) })
    }

    /// What a person must know if agents get fewer connections than `limits.connections` asks for.
    pub fn shortage(&self, limit: u64, wanted: usize) -> Option<String> {
        (self.connections < wanted).then(|| {
            format!(
                "{limit} open files are allowed: at most {} connections of agents at once, not the {wanted} of \
                 limits.connections",
                self.connections
            )
        })
    }

    /// The limit that allows so many connections.
    pub fn limit_for(connections: usize, workers: usize, alert_channels: usize) -> u64 {
        let fits = |limit: u64| {
            Shares::of(limit, workers, alert_channels).is_ok_and(|shares| shares.connections >= connections)
        };
        // Grows with the limit: looked for by halving.
        let (mut low, mut high) = (0, u64::from(u32::MAX));
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ks_2_everything_that_is_given_out_fits_into_the_limit() {
        for workers in [1, 2, 8, 64] {
            for limit in (0..3_000).chain([4_096, 20_000, 65_536, 1 << 20, u64::MAX]) {
                let Ok(shares) = Shares::of(limit, workers, 3) else { continue };
                let worker = EACH_WORKER + (limit / 256).clamp(1, 16);
                let own = OWN + workers as u64 * worker + 3 * EACH_CHANNEL;
                let people = 2 * shares.places as u64 + shares.lines as u64;
                let agents = (shares.connections as u64).saturating_mul(2);
                assert!(own.saturating_add(people).saturating_add(agents) <= limit, "{limit}: {shares:?}");
                assert!(shares.connections >= 4 && shares.places >= 2 && shares.lines >= 2, "{limit}");
            }
        }
    }

    #[test]
    fn ks_2_a_limit_that_is_too_small_says_which_one_is_not() {
        let few = Shares::of(40, 2, 0).expect_err("nothing would be left");
        assert_eq!(few.limit, 40);
        assert!(Shares::of(few.needed, 2, 0).is_ok());
        assert!(Shares::of(few.needed - 1, 2, 0).is_err());
        assert_eq!(Shares::of(80, 2, 0).map(|shares| shares.connections), Ok(4));
    }

    #[test]
    fn ui_2_the_limit_that_is_asked_for_is_the_smallest_that_will_do() {
        let limit = Shares::limit_for(10_000, 2, 0);
        assert!(Shares::of(limit, 2, 0).is_ok_and(|shares| shares.shortage(limit, 10_000).is_none()));
        assert!(Shares::of(limit - 1, 2, 0).is_ok_and(|shares| shares.shortage(limit, 10_000).is_some()));
    }
}
