//! Cost of turning text into prints: SimHash in MB/s, and the whole check of a 100 kB request (LD-5).
//!
//! `cargo run --release -p estop-bench --bin fingerprint`

use std::hint::black_box;

use estop_bench::naive_simhash::naive_simhash;
use estop_bench::stopwatch::{best_of, ns_each};
use estop_bench::texts;
use estop_core::event::Ended;
use estop_core::fingerprint::normalize::normalize;
use estop_core::fingerprint::simhash::{simhash, simhash_exact};
use estop_core::fingerprint::{RequestFingerprint, RequestText, StepText};

const ROUNDS: usize = 200;

fn main() {
    println!(
        "{:24} {:>10} {:>8} {:>8} {:>8}  {:>6}   MB/s on 100 kB, one core",
        "", "normalize", "naive", "simhash", "exact", "ratio"
    );
    for (name, text) in texts::all() {
        let speed =
            |work: &dyn Fn(&str)| texts::LEN as f64 * 1e3 / ns_each(best_of(ROUNDS, || work(&text)), 1);
        let normalized = speed(&|t| {
            black_box(normalize(black_box(t)));
        });
        let hashed = speed(&|t| {
            black_box(simhash(black_box(t)));
        });
        let exact = speed(&|t| {
            black_box(simhash_exact(black_box(t)));
        });
        let naive = speed(&|t| {
            black_box(naive_simhash(black_box(t)));
        });
        let ratio = hashed / naive;
        println!("{name:24} {normalized:10.0} {naive:8.0} {hashed:8.0} {exact:8.0}  {ratio:5.1}×");
    }
    for (name, text) in texts::all() {
        let check = best_of(ROUNDS, || {
            black_box(RequestFingerprint::of(black_box(&request(&text))));
        });
        println!("print of a 100 kB request, {name}: {:.0} µs", ns_each(check, 1) / 1e3);
    }
}

/// A fifth system prompt, a fifth prompt, the rest a tool's result.
fn request(text: &str) -> RequestText<'_> {
    let cut =
        |part: usize| (texts::LEN * part / 5..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let (first, second) = (cut(1).min(text.len()), cut(2).min(text.len()));
    RequestText {
        system: &text[..first],
        first_user: &text[first..second],
        last_user: &text[first..second],
        continues: true,
        steps: vec![StepText {
            tool: "Bash",
            args: r#"{"command":"cat log"}"#,
            result: &text[second..],
            ended: Ended::Unknown,
        }],
        ..RequestText::default()
    }
}
