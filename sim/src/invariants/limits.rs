//! Limits hold, loops are stopped, and who does not loop is not stopped for it.

use estop_core::decision::{Finding, Guard, Ruling};
use estop_core::event::{CallKind, EventKind};
use estop_core::policy::{LoopScore, Mode, WatchdogScope};

use super::Step;
use crate::broken::{Holds, ensure};
use crate::model::calendar::{self, Local};
use crate::model::{May, Model};

/// Tool calls and prompts by hook stay below their limit, once for each allowance (CB-2); a report passes (CB-6).
pub(super) fn run_limits_hold(step: &Step<'_>, model: &Model) -> Holds {
    let limits = &step.policy.limits;
    let limit = if step.event.what == EventKind::PromptSubmitted {
        limits.max_turns
    } else if let EventKind::ToolRequested(t) = &step.event.what {
        if limits.wrap_up_tools.contains(&t.tool) {
            return Ok(());
        }
        limits.max_tool_calls
    } else {
        return Ok(());
    };
    let Some(max) = limit.get().filter(|_| step.is_allowed() && !model.runs.lost_track()) else {
        return Ok(());
    };
    let Some(run) = model.runs.get(&step.event.run) else { return Ok(()) };
    if run.mode(&step.policy.modes) != Mode::Enforce || run.is_tripped() {
        return Ok(());
    }
    if model.is_asked_again(step.event) {
        return Ok(());
    }
    let before = if step.event.what == EventKind::PromptSubmitted { run.prompts } else { run.tool_calls };
    let granted = u64::from(max) * run.allowances;
    ensure(before + 1 < granted, "run_limits_hold", || {
        format!("one more after {before}, the limit is {granted}: {run:?}")
    })
}

/// A model that the rules do not allow is not asked (PO-7). The rules here end with `*`, or have none.
pub(super) fn only_allowed_models_are_asked(step: &Step<'_>, _: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    let rules = &step.policy.models;
    let Some(model) = r.model.as_deref().filter(|_| step.is_allowed()) else { return Ok(()) };
    if step.policy.modes[Guard::Models] != Mode::Enforce {
        return Ok(());
    }
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => model.starts_with(prefix),
        None => model == pattern,
    };
    let is_allowed = rules.allow.is_empty() || rules.allow.iter().any(|pattern| fits(pattern));
    let is_denied = rules.deny.iter().any(|pattern| fits(pattern));
    ensure(is_allowed && !is_denied, "only_allowed_models_are_asked", || format!("{model} under {rules:?}"))
}

/// No more requests and tokens in any 60 s than the policy says (PO-3).
pub(super) fn rate_limit_holds(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    if !step.is_allowed() || step.policy.modes[Guard::Rate] != Mode::Enforce {
        return Ok(());
    }
    let (sum, limit) = (model.minute.sum(), step.policy.rate);
    let tokens = sum.tokens + u64::from(r.estimate.input_tokens);
    let requests_fit = limit.requests_per_minute.is_none_or(|max| sum.requests < u64::from(max));
    let tokens_fit = limit.tokens_per_minute.is_none_or(|max| sum.tokens == 0 || tokens <= max);
    ensure(requests_fit && tokens_fit, "rate_limit_holds", || format!("{sum:?} and {r:?} under {limit:?}"))
}

/// No more generating calls in any 60 s than the watchdog lets (KS-8).
pub(super) fn watchdog_holds(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    let watched = step.policy.modes[Guard::Watchdog] == Mode::Enforce
        && step.policy.watchdog.scope != WatchdogScope::Off;
    if !(step.is_allowed() && watched && r.call == CallKind::Generation) {
        return Ok(());
    }
    let (calls, max) = (model.minute.sum().generations + 1, step.policy.watchdog.max_calls_per_minute);
    ensure(calls <= u64::from(max), "watchdog_holds", || {
        format!("{calls} calls in a minute, the limit is {max}")
    })
}

/// The gate lets no more tool calls by hook through in any 60 s than the tripwire says (TW-4).
pub(super) fn gate_rate_holds(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::ToolRequested(_) = &step.event.what else { return Ok(()) };
    if !step.is_allowed() || step.policy.modes[Guard::Gate] != Mode::Enforce {
        return Ok(());
    }
    let (calls, max) = (model.minute.sum().tool_calls, step.policy.gate.max_tool_calls_per_minute);
    ensure(calls < u64::from(max), "gate_rate_holds", || {
        format!("one more after {calls}, the limit is {max}")
    })
}

/// Nothing passes outside allowed hours (PO-3).
pub(super) fn hours_hold(step: &Step<'_>, _: &Model) -> Holds {
    let asks = matches!(
        step.event.what,
        EventKind::RequestReceived(_)
            | EventKind::ToolRequested(_)
            | EventKind::MessageIn { .. }
            | EventKind::MessageOut { .. }
    );
    let Some(hours) = step.policy.hours.as_ref().filter(|_| asks && step.is_allowed()) else { return Ok(()) };
    let local = calendar::local(&hours.zone, step.now.wall, Local::default());
    let open = calendar::is_open(hours, local) || step.policy.modes[Guard::Hours] != Mode::Enforce;
    ensure(open, "hours_hold", || format!("{local:?} is outside {hours:?}"))
}

/// The fifth repetition in a row (the fourth of a block, the sixth in twenty steps) is not let through (LD-6).
pub(super) fn loops_are_stopped(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    if !step.is_allowed() || !is_enforced_literally(step) || r.call != CallKind::Generation {
        return Ok(());
    }
    ensure(!model.circles_with(r, step.policy).repeats, "loops_are_stopped", || {
        format!("the steps {:?} complete a loop", r.print.steps)
    })
}

/// By progress, a pause or news in between spare a repetition (LD-8): the model knows neither.
fn is_enforced_literally(step: &Step<'_>) -> bool {
    step.policy.modes[Guard::Loop] == Mode::Enforce && step.policy.loops.score == LoopScore::Literal
}

/// The eighth equal failure in a row with other arguments is not let through (LD-6 d).
pub(super) fn churn_is_stopped(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    if !step.is_allowed()
        || step.policy.modes[Guard::Churn] != Mode::Enforce
        || r.call != CallKind::Generation
    {
        return Ok(());
    }
    ensure(!model.circles_with(r, step.policy).churns, "churn_is_stopped", || {
        format!("the steps {:?} go on failing", r.print.steps)
    })
}

/// What is asked again, because the provider failed it, is no ask and no step more (LD-1, LD-6).
pub(super) fn retries_add_nothing(step: &Step<'_>, model: &Model) -> Holds {
    let EventKind::RequestReceived(r) = &step.event.what else { return Ok(()) };
    let finding = step.decision.verdicts.get(Guard::Loop).map(|v| &v.finding);
    let Some(Finding::Loop(found)) = finding.filter(|_| model.loops.is_retry(r)) else { return Ok(()) };
    let adds_nothing = found.prompts == 0 && found.calls == 0 && found.repetition.is_none();
    ensure(adds_nothing, "retries_add_nothing", || format!("{found:?} of a retry"))
}

/// A loop that hooks see stops the agent when the tool ends.
pub(super) fn hook_loops_are_stopped(step: &Step<'_>, model: &Model) -> Holds {
    let modes = &step.policy.modes;
    let loops = model.hook_circles.repeats && is_enforced_literally(step);
    let churns = model.hook_circles.churns && modes[Guard::Churn] == Mode::Enforce;
    ensure(!(loops || churns) || model.may == May::NotWhileOff, "hook_loops_are_stopped", || {
        format!("{:?}, and the agent may still work", model.hook_circles)
    })
}

/// No false kill: a temperament that does not loop is not even suspected (LD-7).
pub(super) fn healthy_agents_are_not_taken_for_loops(step: &Step<'_>, _: &Model) -> Holds {
    if !step.kind.is_healthy() {
        return Ok(());
    }
    let verdict = step.decision.verdicts.get(Guard::Loop);
    let suspected = verdict.is_some_and(|v| matches!(v.ruling, Ruling::Stop | Ruling::WouldStop));
    ensure(!suspected, "healthy_agents_are_not_taken_for_loops", || format!("{verdict:?}"))
}
