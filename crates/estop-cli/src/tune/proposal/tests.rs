//! What is proposed for which evidence.

use estop_journal::{Ends, LoopOutcome, LoopStop, TunedStop};
use serde_json::{Value, json};

use super::*;
use crate::tune::setting::settings_around;

/// An agent that is only watched, with the usual settings, and what each would have stopped.
struct Told {
    policy: Policy,
    traffic: Traffic,
    ends: Vec<(Profile, u16, Ends)>,
}

impl Told {
    fn new(ended: u64) -> Told {
        let traffic =
            Traffic { requests: 900, runs: ended + 4, ended, ended_long: ended, ..Traffic::default() };
        Told { policy: Policy::default(), traffic, ends: Vec::new() }
    }

    /// Every setting of a profile up to this threshold stops runs that ended so.
    fn stops(mut self, profile: Profile, up_to: u16, ends: Ends) -> Told {
        self.ends.push((profile, up_to, ends));
        self
    }

    #[track_caller]
    fn check(&self, change: &Value, says: &[&str]) {
        let settings = settings_around(&self.policy.loops);
        let outcome = |setting: &LoopPolicy| {
            let applies = |(profile, up_to, _): &&(Profile, u16, Ends)| {
                *profile == setting.profile && setting.threshold_tenths <= *up_to
            };
            let Some((_, _, ends)) = self.ends.iter().find(applies) else { return SettingOutcome::default() };
            let runs = ends.by_itself + ends.by_hand + ends.unclear();
            let stop = TunedStop {
                stop: LoopStop { seq: 7, wall: 0, run: None, finding: Default::default() },
                request: 5,
                tool: Some("check_ci".into()),
                end: RunEnd::ByItself,
            };
            let stops = if ends.by_itself > 0 { vec![stop] } else { Vec::new() };
            SettingOutcome {
                loops: LoopOutcome { runs, stops: runs, ..Default::default() },
                ends: *ends,
                stops,
            }
        };
        let outcomes: Vec<SettingOutcome> = settings.iter().map(outcome).collect();
        let case =
            Case { policy: &self.policy, traffic: self.traffic, settings: &settings, outcomes: &outcomes };
        let proposal = case.propose();
        assert_eq!(Value::Object(proposal.change), *change, "{}", proposal.reason);
        for part in says {
            assert!(proposal.reason.contains(part), "not `{part}`: {}", proposal.reason);
        }
    }
}

fn healthy(by_itself: u64) -> Ends {
    Ends { by_itself, ..Ends::default() }
}

fn stuck(by_hand: u64) -> Ends {
    Ends { by_hand, ..Ends::default() }
}

fn unclear(unknown: u64) -> Ends {
    Ends { unknown, ..Ends::default() }
}

#[test]
fn ld_7_the_guard_is_proposed_only_where_enough_was_seen() {
    Told::new(20)
        .check(&json!({"kill_switch_enabled": true}), &["stops none of its runs", "no stop is in doubt"]);
    Told::new(19).check(&json!({}), &["(19 of 20)"]);
    let mut on = Told::new(0);
    on.policy.modes[Guard::Loop] = Mode::Enforce;
    on.check(&json!({}), &["stops none of its runs"]);
}

#[test]
fn ld_7_the_profile_is_chosen_before_the_threshold() {
    let told =
        Told::new(19).stops(Profile::Coding, 100, healthy(3)).stops(Profile::Interactive, 100, healthy(3));
    let says = [
        "`profile: coding` at 10 stops 3 runs that look healthy (all at `check_ci`)",
        "`profile: ops` stops none",
    ];
    told.check(&json!({"profile": "ops"}), &says);
    let all = [Profile::Coding, Profile::Interactive, Profile::Batch, Profile::Ops];
    let told = all.iter().fold(Told::new(19), |told, profile| told.stops(*profile, 100, healthy(3)));
    told.check(&json!({"kill_switch_threshold": 15}), &["`kill_switch_threshold: 15` stops none of them"]);
}

#[test]
fn ld_7_of_settings_that_spare_the_healthy_the_one_that_finds_more_wins() {
    let told = Told::new(30)
        .stops(Profile::Coding, 200, Ends { by_itself: 1, by_hand: 2, ..Ends::default() })
        .stops(Profile::Batch, 200, stuck(2));
    let change = json!({"profile": "batch", "kill_switch_enabled": true});
    told.check(&change, &["still stops the 2 runs that a person stopped by hand"]);
    // A lower threshold only where it stops more of what a person stopped.
    Told::new(30).stops(Profile::Coding, 80, stuck(1)).check(
        &json!({"kill_switch_threshold": 8, "kill_switch_enabled": true}),
        &["today's setting stops 0"],
    );
    Told::new(30).stops(Profile::Coding, 80, unclear(1)).check(&json!({"kill_switch_enabled": true}), &[]);
}

#[test]
fn ld_7_doubt_never_switches_the_guard_on() {
    Told::new(500).stops(Profile::Coding, 150, unclear(2)).check(
        &json!({}),
        &[
            "2 runs whose health nobody knows",
            "If they were healthy, set `profile: interactive`",
            "for you to decide",
        ],
    );
    let by_guard = Ends { by_loop_guard: 1, activated: 1, ..Ends::default() };
    Told::new(500).stops(Profile::Coding, 200, by_guard).check(&json!({}), &["for you to decide"]);
    let told = Told::new(500)
        .stops(Profile::Coding, 200, healthy(1))
        .stops(Profile::Interactive, 200, unclear(2))
        .stops(Profile::Ops, 200, unclear(1))
        .stops(Profile::Batch, 200, unclear(1));
    told.check(
        &json!({"profile": "interactive"}),
        &["2 runs whose health nobody knows", "for you to decide"],
    );
    // It was switched off after it had stopped something.
    let mut off = Told::new(500);
    off.traffic.stopped = 1;
    off.check(&json!({}), &["stopped 1 run before it was switched off"]);
}

#[test]
fn ld_7_where_nothing_spares_the_healthy_the_rule_or_the_tool_is_named() {
    let all = [Profile::Coding, Profile::Interactive, Profile::Batch, Profile::Ops];
    let told = all.iter().fold(Told::new(500), |told, profile| told.stops(*profile, 500, healthy(2)));
    told.check(&json!({}), &["None of these settings", "If this is its work, set `kill_switch_threshold"]);
}

#[test]
fn ld_7_an_agents_own_threshold_is_among_those_tried() {
    let mut told = Told::new(20).stops(Profile::Coding, 123, stuck(1));
    told.policy.loops.threshold_tenths = 123;
    told.check(&json!({"kill_switch_enabled": true}), &["stops 1 run that a person stopped by hand"]);
}
