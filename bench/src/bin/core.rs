//! Figures of the core: cost of a decision, speed of verification and replay.
//!
//! `cargo run --release -p estop-bench --bin core [EVENTS [ROUNDS]]`. Times are the best of several rounds. For
//! instruction counts: `valgrind --tool=callgrind target/release/core 20000 1`.

use estop_bench::stopwatch::{best_of, ns_each};
use estop_bench::workload;
use estop_journal::{Checker, Replay};

const AGENTS: usize = 100;

fn main() {
    let argument =
        |at: usize, default: usize| std::env::args().nth(at).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (events_wanted, rounds) = (argument(1, 400_000), argument(2, 5));
    let policy = workload::policy();
    let events = workload::events(events_wanted, AGENTS);
    let mut allowed = 0;
    let judged = best_of(rounds, || {
        allowed = 0;
        workload::judge(&events, AGENTS, &policy, |_, decision| {
            allowed += usize::from(decision.is_allowed())
        });
    });
    println!(
        "decide, without hashing:  {:7.0} ns an event ({allowed} of {events_wanted} allowed)",
        ns_each(judged, events_wanted)
    );

    let journal = workload::journal(&events, AGENTS, &policy);
    let lines: Vec<&[u8]> = journal.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
    let records = lines.len();
    let verified = best_of(rounds, || {
        let mut checker = Checker::default();
        let broken = lines.iter().filter(|line| checker.take(line).is_err()).count();
        assert_eq!(broken, 0);
    });
    report("verify", verified, records, journal.len());
    let replayed = best_of(rounds, || {
        let mut replay = Replay::default();
        let broken = lines.iter().filter(|line| replay.feed(line).is_err()).count();
        assert_eq!(broken, 0);
    });
    report("replay", replayed, records, journal.len());
}

fn report(what: &str, time: std::time::Duration, records: usize, bytes: usize) {
    println!(
        "{what}, one core:         {:7.0} ns a record, {:9.0} records/s, {:5.0} MB/s ({} bytes a record)",
        ns_each(time, records),
        records as f64 / time.as_secs_f64(),
        bytes as f64 / time.as_secs_f64() / 1e6,
        bytes / records,
    );
}
