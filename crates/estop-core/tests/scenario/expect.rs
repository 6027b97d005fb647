//! What a line can expect, separated by commas:
//!
//! ```text
//! allow | noted | refuse GUARD         retry never|5s            GUARD pass|warn|stop|would_stop|off|skip
//! reason "part" | reason is "all"      warning "part" | warning is "all" | no warning
//! effect NAME … | no effect [NAME …]   json "part"
//! score 11.0 | parts 11/0/0            vetoes A B | no vetoes | cooldown 60s | budget_left 100 | intent STOP 1000
//! health 600 | mode LOOPING | intensity HIGH | standing active|inactive manual|inactive kill_switch loop|paused person
//! run NAME STATE | implicit STATE|gone | wake 30s run_clock | no wake | in_flight 2 | windows 1 20
//! reserved $1 [TOKENS] | spent $1 [TOKENS] | spent_month $1 [TOKENS] | latest_day 2036-06-01|none
//! applied | already | stale | illegal STATE | state RUNNING | epoch 3 | shut llm+tools | pressed | not pressed
//! ```

use estop_core::agent::standing::{DeactivatedBy, Standing};
use estop_core::budget::Amount;
use estop_core::decision::{Decision, Effect, Finding, Guard, Outcome, Retry, Ruling};
use estop_core::engine::{Wake, WakeReason};
use estop_core::loop_detector::LoopFinding;
use estop_core::run::RunState;
use estop_core::system::{GateView, SystemOutcome};
use estop_core::tripwire::safety_gate::SafetyGateFinding;

use super::event::{channels, system_state};
use super::line::{duration_ms, wall_ms, words};
use super::policy::nano_usd;
use super::world::{Last, World};

/// Compares one expectation with what came.
pub(super) fn check(world: &World, expected: &str) -> Result<(), String> {
    let words = words(expected)?;
    let all: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let came = match &world.last {
        Last::System(decision) => system_answer(decision.outcome, decision.gate, &all),
        Last::Fleet(presses) => fleet_answer(*presses, &all),
        Last::Nothing | Last::Agent(_) => decision_answer(world, &all).or_else(|| state_answer(world, &all)),
    };
    match came {
        None => Err(format!("  `{expected}` is no expectation")),
        Some(Err(wrong)) => Err(wrong),
        Some(Ok(Came { holds: true, .. })) => Ok(()),
        Some(Ok(Came { came, .. })) => Err(format!("  expected: {expected}\n  came:     {came}")),
    }
}

/// Whether an expectation holds, and what came.
struct Came {
    holds: bool,
    came: String,
}

impl Came {
    fn holds(holds: bool, came: impl Into<String>) -> Came {
        Came { holds, came: came.into() }
    }

    fn same(expected: &str, came: impl Into<String>) -> Came {
        let came = came.into();
        Came { holds: came == expected, came }
    }
}

/// `None`: it is another kind of expectation. `Err`: there is nothing to compare with.
type Answer = Option<Result<Came, String>>;

fn system_answer(outcome: SystemOutcome, gate: GateView, words: &[&str]) -> Answer {
    let name = |text: &SystemOutcome| format!("{text:?}");
    let said = |expected| Came::holds(outcome == expected, name(&outcome));
    Some(Ok(match words {
        ["applied"] => said(SystemOutcome::Applied),
        ["already"] => said(SystemOutcome::AlreadySo),
        ["stale"] => said(SystemOutcome::StaleEpoch),
        ["illegal", state] => match system_state(state) {
            Ok(state) => said(SystemOutcome::IllegalFrom(state)),
            Err(wrong) => return Some(Err(wrong)),
        },
        ["state", state] => Came::holds(system_state(state) == Ok(gate.state), format!("{:?}", gate.state)),
        ["epoch", epoch] => Came::same(epoch, gate.epoch.to_string()),
        ["shut", names] => Came::holds(channels(names) == Ok(gate.shut), format!("{:?}", gate.shut)),
        ["shut"] => Came::holds(gate.shut.is_empty(), format!("{:?}", gate.shut)),
        _ => return None,
    }))
}

fn fleet_answer(presses: bool, words: &[&str]) -> Answer {
    match words {
        ["pressed"] => Some(Ok(Came::holds(presses, "not pressed"))),
        ["not", "pressed"] => Some(Ok(Came::holds(!presses, "pressed"))),
        _ => None,
    }
}

fn decision_answer(world: &World, words: &[&str]) -> Answer {
    let about = |look: &dyn Fn(&Decision) -> Came| Some(world.decision().map(look));
    match words {
        ["allow"] => about(&|d| Came::holds(d.outcome == Outcome::Allow, outcome(d))),
        ["noted"] => about(&|d| Came::holds(d.outcome == Outcome::Noted, outcome(d))),
        ["refuse", guard] => {
            about(&|d| Came::holds(d.refused_by().is_some_and(|by| by.name() == *guard), outcome(d)))
        }
        ["retry", when] => about(&|d| retry(d, when)),
        ["reason", "is", text] => about(&|d| Came::same(text, d.reason())),
        ["reason", part] => about(&|d| Came::holds(d.reason().contains(part), d.reason())),
        ["warning", "is", text] => about(&|d| Came::same(text, d.warnings().join("\n"))),
        ["warning", part] => about(&|d| {
            let warnings = d.warnings().join("\n");
            Came::holds(warnings.contains(part), warnings)
        }),
        ["no", "warning"] => about(&|d| Came::holds(d.warnings().is_empty(), d.warnings().join("\n"))),
        ["effect", effect @ ..] => about(&|d| Came::holds(has_effect(d, effect), effects(d).join(", "))),
        ["no", "effect", effect @ ..] => {
            about(&|d| Came::holds(!has_effect(d, effect), effects(d).join(", ")))
        }
        ["json", part] => about(&|d| {
            let json = serde_json::to_string(d).unwrap_or_default();
            Came::holds(json.contains(part), "see below")
        }),
        [guard, ruling] if Guard::ALL.iter().any(|g| g.name() == *guard) && is_ruling(ruling) => {
            about(&|d| Came::same(ruling, ruling_of(d, guard)))
        }
        _ => finding_answer(world, words),
    }
}

fn outcome(decision: &Decision) -> String {
    format!("{:?}", decision.outcome)
}

fn retry(decision: &Decision, when: &str) -> Came {
    let expected = match when {
        "never" => Ok(Retry::Never),
        after => duration_ms(after).map(Retry::AfterMs),
    };
    let holds = match decision.outcome {
        Outcome::Refuse { retry, .. } => expected == Ok(retry),
        Outcome::Allow | Outcome::Noted => false,
    };
    Came::holds(holds, outcome(decision))
}

const RULINGS: [(&str, Ruling); 6] = [
    ("pass", Ruling::Pass),
    ("warn", Ruling::Warn),
    ("stop", Ruling::Stop),
    ("would_stop", Ruling::WouldStop),
    ("off", Ruling::Off),
    ("skip", Ruling::Skip),
];

fn is_ruling(word: &str) -> bool {
    RULINGS.iter().any(|(name, _)| *name == word)
}

fn ruling_of(decision: &Decision, guard: &str) -> String {
    let verdict =
        decision.verdicts.iter().find(|(g, _)| g.name() == guard).map(|(_, verdict)| verdict.ruling);
    let name = RULINGS.iter().find(|(_, ruling)| Some(*ruling) == verdict).map(|(name, _)| *name);
    name.unwrap_or("not asked").to_owned()
}

fn has_effect(decision: &Decision, words: &[&str]) -> bool {
    effects(decision).iter().any(|effect| effect.split(' ').take(words.len()).eq(words.iter().copied()))
}

/// Effects as words, most telling first.
fn effects(decision: &Decision) -> Vec<String> {
    let name = |run: &Option<Box<str>>| run.as_deref().unwrap_or("implicit").to_owned();
    let word = |value: &dyn erased::Json| value.json().trim_matches('"').to_owned();
    let text = |effect: &Effect| match effect {
        Effect::AbortInFlight => "abort_in_flight".to_owned(),
        Effect::Deactivated { cause } => format!("deactivated {}", cause.name()),
        Effect::HealthFell(finding) => format!("health_fell {}", finding.health),
        Effect::Paused { cause } => format!("paused {}", cause.name()),
        Effect::LoopEvidence(found) => format!("loop_evidence {}", found.matched.len()),
        Effect::Nudged { tool, steps } => format!("nudged {tool} {steps}"),
        Effect::NudgeEnded { helped } => format!("nudge_ended {helped}"),
        Effect::WouldHaveStopped { guard, .. } => format!("would_have_stopped {}", guard.name()),
        Effect::RunTripped { run, used } => format!("run_tripped {} {}", name(run), word(&used.limit)),
        Effect::RunEscalated { run, used, attended } => {
            format!(
                "run_escalated {} {}{}",
                name(run),
                word(&used.limit),
                if *attended { " attended" } else { "" }
            )
        }
        Effect::CutStream { request } => format!("cut_stream {}", request.0),
        Effect::BudgetWarned(warning) => {
            format!("budget_warned {} {}", warning.account.name(), warning.percent)
        }
        Effect::BudgetRefused(finding) => {
            format!("budget_refused {} {}", finding.account.name(), word(&finding.fit))
        }
        Effect::ReservationExpired { request } => format!("reservation_expired {}", request.0),
        Effect::PressButton => "press_button".to_owned(),
        Effect::SnoozeEnded { guard } => format!("snooze_ended {}", guard.name()),
    };
    decision.effects.iter().map(text).collect()
}

mod erased {
    //! Lets one closure write any value as JSON.

    pub(super) trait Json {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

fn finding_answer(world: &World, words: &[&str]) -> Answer {
    let finding = |guard| world.decision().ok().and_then(|d| d.verdicts.get(guard)).map(|v| &v.finding);
    let loops = |look: &dyn Fn(&LoopFinding) -> Came| match finding(Guard::Loop) {
        Some(Finding::Loop(found)) => Some(Ok(look(found))),
        _ => Some(Err("  the loop guard found nothing".to_owned())),
    };
    let gate = |look: &dyn Fn(&SafetyGateFinding) -> Came| match finding(Guard::Gate) {
        Some(Finding::Gate(found)) => Some(Ok(look(found))),
        _ => Some(Err("  the gate found nothing".to_owned())),
    };
    match words {
        ["score", score] => loops(&|f| Came::same(score, format!("{}.{}", f.score / 10, f.score % 10))),
        ["parts", parts] => {
            loops(&|f| Came::same(parts, format!("{}/{}/{}", f.prompts, f.responses, f.calls)))
        }
        ["other", "score", "none"] => loops(&|f| Came::holds(f.other.is_none(), format!("{:?}", f.other))),
        ["other", "score", score] => loops(&|f| {
            Came::same(
                score,
                f.other.map_or_else(String::new, |o| format!("{}.{}", o.score / 10, o.score % 10)),
            )
        }),
        ["window", size] => loops(&|f| Came::same(size, f.window.to_string())),
        ["vetoes", vetoes @ ..] => gate(&|f| Came::same(&vetoes.join(" "), vetoes_of(f))),
        ["no", "vetoes"] => gate(&|f| Came::same("", vetoes_of(f))),
        ["cooldown", left] => {
            gate(&|f| Came::holds(duration_ms(left) == Ok(f.cooldown_ms), format!("{} ms", f.cooldown_ms)))
        }
        ["budget_left", tokens] => gate(&|f| Came::same(tokens, f.remaining_budget.to_string())),
        ["intent", intent, confidence] => gate(&|f| {
            let came = format!("{} {}", erased::Json::json(&f.intent).trim_matches('"'), f.confidence);
            Came::same(&format!("{intent} {confidence}"), came)
        }),
        _ => None,
    }
}

fn vetoes_of(finding: &SafetyGateFinding) -> String {
    let names = finding.vetoes.iter().map(|veto| erased::Json::json(&veto).trim_matches('"').to_owned());
    names.collect::<Vec<_>>().join(" ")
}

fn state_answer(world: &World, words: &[&str]) -> Answer {
    let state = &world.state;
    let upper = |value: &dyn erased::Json| value.json().trim_matches('"').to_owned();
    Some(Ok(match words {
        ["health", health] => Came::same(health, state.health().to_string()),
        ["mode", mode] => Came::same(mode, upper(&state.activity().mode)),
        ["intensity", intensity] => Came::same(intensity, upper(&state.activity().intensity)),
        ["standing", standing @ ..] => Came::same(&standing.join(" "), standing_of(state.standing())),
        ["run", name, expected] => Came::same(expected, run_state(state.run_state(Some(name)))),
        ["implicit", expected] => Came::same(expected, run_state(state.run_state(None))),
        ["wake", at, why] => {
            let wake = state.poll_timeout(&world.policy);
            Came::holds(
                wake.is_some_and(|w| duration_ms(at) == Ok(w.at.0) && reason(w) == *why),
                format!("{wake:?}"),
            )
        }
        ["no", "wake"] => {
            let wake = state.poll_timeout(&world.policy);
            Came::holds(wake.is_none(), format!("{wake:?}"))
        }
        ["in_flight", count] => Came::same(count, state.in_flight().to_string()),
        ["windows", rest @ ..] => {
            let (conversations, longest) = state.windows();
            Came::same(&rest.join(" "), format!("{conversations} {longest}"))
        }
        ["reserved", amount @ ..] => return Some(amount_is(state.budget().reserved(), amount)),
        ["spent", amount @ ..] => return Some(amount_is(state.budget().spent_today(), amount)),
        ["spent_month", amount @ ..] => return Some(amount_is(state.budget().spent_this_month(), amount)),
        ["latest_day", "none"] => {
            let latest = latest_day(world);
            Came::holds(latest.is_none(), format!("{latest:?}"))
        }
        ["latest_day", day] => {
            let latest = latest_day(world);
            let holds =
                wall_ms(&format!("{day}T00:00")).map(|wall| latest == Some((wall / 86_400_000) as i32));
            return Some(holds.map(|holds| Came::holds(holds, format!("{latest:?}"))));
        }
        _ => return None,
    }))
}

fn latest_day(world: &World) -> Option<i32> {
    world.state.budget().latest_day_ahead(world.clocks(), &world.policy.budget)
}

fn amount_is(amount: Amount, words: &[&str]) -> Result<Came, String> {
    let mut holds = true;
    for word in words {
        holds &= match word.strip_prefix('$') {
            Some(dollars) => amount.usd.0 == nano_usd(dollars)?,
            None => amount.tokens.to_string() == *word,
        };
    }
    Ok(Came::holds(holds, format!("{} {}", amount.usd, amount.tokens)))
}

fn standing_of(standing: Standing) -> String {
    match standing {
        Standing::Active => "active".to_owned(),
        Standing::Inactive { by: DeactivatedBy::Manual, .. } => "inactive manual".to_owned(),
        Standing::Inactive { by: DeactivatedBy::KillSwitch(cause), .. } => {
            format!("inactive kill_switch {}", cause.name())
        }
        Standing::Paused { cause: None, .. } => "paused person".to_owned(),
        Standing::Paused { cause: Some(cause), .. } => format!("paused {}", cause.name()),
    }
}

fn run_state(state: Option<RunState>) -> &'static str {
    match state {
        None => "gone",
        Some(RunState::Active) => "ACTIVE",
        Some(RunState::Sleeping) => "SLEEPING",
        Some(RunState::Completed) => "COMPLETED",
        Some(RunState::Escalated) => "ESCALATED",
    }
}

fn reason(wake: Wake) -> &'static str {
    match wake.why {
        WakeReason::RunClock => "run_clock",
        WakeReason::Reservation => "reservation",
        WakeReason::Idle => "idle",
        WakeReason::Snooze => "snooze",
    }
}
