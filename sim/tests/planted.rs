//! The simulator finds what it is there for: each judge here has one bug, planted around the real core, and the
//! invariant that must report it is named.

mod planted_judges;

use estop_sim::{Config, Judge, Replaying, run};
use planted_judges as planted;

/// The first invariant that breaks, over a few seeds. The journal is not replayed: the real core would see at once
/// that its planted twin decides otherwise, whatever the bug.
fn first_broken<J: Judge>() -> &'static str {
    first_broken_with::<J>(Replaying::Off)
}

fn first_broken_with<J: Judge>(replaying: Replaying) -> &'static str {
    (1..=8)
        .map(|seed| Config { seed, agents: 114, events: 20_000, replaying, gated: false })
        .find_map(|config| run::<J>(&config).err())
        .map_or("none", |broken| broken.breach.invariant)
}

/// How many of the first 24 seeds the named invariant reports; other consequences of the same bug may come first.
fn seeds_reported_by<J: Judge>(invariant: &str) -> usize {
    let reports = |seed: &u64| {
        let config =
            Config { seed: *seed, agents: 114, events: 20_000, replaying: Replaying::Off, gated: false };
        run::<J>(&config).is_err_and(|broken| broken.breach.invariant == invariant)
    };
    (1..=24).filter(reports).count()
}

#[test]
fn a_judge_that_ignores_the_gate_is_found() {
    assert_eq!(first_broken::<planted::IgnoresTheGate>(), "nothing_passes_a_shut_gate");
}

#[test]
fn a_judge_that_lets_the_inactive_through_is_found() {
    assert_eq!(first_broken::<planted::LetsInactiveThrough>(), "nothing_passes_while_stopped");
}

#[test]
fn a_judge_that_forgets_the_reservation_of_an_aborted_stream_is_found() {
    assert_eq!(first_broken::<planted::ForgetsAborts>(), "reservations_are_conserved");
}

#[test]
fn a_judge_that_books_nothing_is_found() {
    let seeds = seeds_reported_by::<planted::BooksNothing>("budget_caps_hold");
    println!("reported in {seeds} of 24 seeds");
    assert!(seeds > 0);
}

#[test]
fn a_judge_that_does_not_look_at_the_fleet_is_found() {
    let seeds = seeds_reported_by::<planted::IgnoresTheFleet>("fleet_budget_holds");
    println!("reported in {seeds} of 24 seeds");
    assert!(seeds > 0);
}

#[test]
fn a_judge_that_keeps_its_windows_on_activation_is_found() {
    assert_eq!(first_broken::<planted::KeepsWindows>(), "activation_starts_afresh");
}

#[test]
fn a_watchdog_off_by_one_is_found() {
    assert_eq!(first_broken::<planted::WatchdogOffByOne>(), "watchdog_holds");
}

#[test]
fn a_breaker_off_by_one_is_found() {
    assert_eq!(first_broken::<planted::BreakerOffByOne>(), "run_limits_hold");
}

#[test]
fn a_judge_blind_to_what_worked_is_found() {
    assert_eq!(first_broken::<planted::BlindToSuccess>(), "loops_are_stopped");
}

#[test]
fn a_judge_blind_to_failures_is_found() {
    assert_eq!(first_broken::<planted::BlindToFailure>(), "churn_is_stopped");
}

#[test]
fn a_judge_that_counts_retries_is_found() {
    assert_eq!(first_broken::<planted::CountsRetries>(), "retries_add_nothing");
}

#[test]
fn a_judge_that_forgives_what_is_no_retry_is_found() {
    assert_eq!(first_broken::<planted::ForgivesTooMuch>(), "loops_are_stopped");
}

#[test]
fn a_judge_that_cries_loop_is_found() {
    assert_eq!(first_broken::<planted::CriesLoop>(), "healthy_agents_are_not_taken_for_loops");
}

#[test]
fn a_judge_that_sleeps_through_its_ticks_is_found() {
    assert_eq!(first_broken::<planted::SleepsThroughTicks>(), "wakes_move_on");
}

#[test]
fn a_judge_that_stops_in_shadow_is_found() {
    assert_eq!(first_broken::<planted::StopsInShadow>(), "refusals_name_their_guard");
}

#[test]
fn a_judge_that_decides_differently_each_time_is_found() {
    assert_eq!(first_broken_with::<planted::Forgetful>(Replaying::On), "replay_is_equal");
}

#[test]
fn a_judge_whose_state_is_no_fold_of_its_events_is_found() {
    assert_eq!(first_broken::<planted::NoFold>(), "restart_rebuilds_the_state");
}
