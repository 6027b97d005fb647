//! The keys of `policy:`, one by one: how each is read, what it changes in a [`Policy`], whether a layer says anything about it, the
//! schema of what it may hold, and how it is shown. A new key is a line in each of the five.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::guards::GuardsIn;
use super::shape::{AllowedHoursIn, BudgetIn, LimitsIn, LoopRulesIn, ModelsIn, RateLimitIn};
use super::values::{MicroUsd, Number, ThresholdTenths, WindowSize, given};
use super::{schema, shown};
use crate::guard::{Guard, Mode};
use crate::ids::Name;
use crate::money::NanoUsd;
use crate::policy::{
    BlockResponse, BudgetPolicy, EvidenceMode, Limit, LimitName, Limits, LoopPolicy, LoopScore, Policy,
    Preset, Profile, RateLimit,
};
use crate::time::Zone;

/// Time zones by the name the file uses. Invariant: every name in the file is here.
pub(super) type Zones = BTreeMap<Name, Zone>;

/// What can be set for all agents, or for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyIn {
    /// Where this agent starts (PO-5). For all agents it stands at the top of the file.
    #[serde(deserialize_with = "given")]
    pub preset: Option<Preset>,
    /// The same switch as `guards.loop`: `true` is `enforce`, `false` is `shadow` (LD-2).
    #[serde(deserialize_with = "given")]
    pub kill_switch_enabled: Option<bool>,
    /// Requests remembered for each conversation.
    #[serde(deserialize_with = "given")]
    pub kill_switch_window_size: Option<WindowSize>,
    /// The score that may not be exceeded.
    #[serde(deserialize_with = "given")]
    pub kill_switch_threshold: Option<ThresholdTenths>,
    /// Tools that repeat on purpose.
    #[serde(deserialize_with = "given")]
    pub exempt_tools: Option<Vec<Name>>,
    /// Which repetitions are loops (LD-6 a–c).
    pub loop_rules: LoopRulesIn,
    /// How the loop score counts (LD-1).
    #[serde(deserialize_with = "given")]
    pub loop_score: Option<LoopScore>,
    /// What kind of work this is.
    #[serde(deserialize_with = "given")]
    pub profile: Option<Profile>,
    /// Spending caps.
    pub budget: BudgetIn,
    /// When work is allowed.
    pub allowed_hours: AllowedHoursIn,
    /// Requests and tokens a minute.
    pub rate_limit: RateLimitIn,
    /// Which models may be asked.
    pub models: ModelsIn,
    /// How a refusal looks to the client.
    #[serde(deserialize_with = "given")]
    pub block_response: Option<BlockResponse>,
    /// What is kept of the steps before a stop (EV-1).
    #[serde(deserialize_with = "given")]
    pub evidence: Option<EvidenceMode>,
    /// What each guard may do.
    pub guards: GuardsIn,
    /// Tools that pass on a tripped run.
    #[serde(deserialize_with = "given")]
    pub wrap_up_tools: Option<Vec<Name>>,
    /// Commands that run tests, beside the known ones (CB-4).
    #[serde(deserialize_with = "given")]
    pub test_runners: Option<Vec<Name>>,
    /// Circuit-breaker limits.
    pub limits: LimitsIn,
}

/// Lays one layer over a policy, key by key.
pub(super) fn merge(policy: &mut Policy, layer: &PolicyIn, zones: &Zones) {
    let loops = &mut policy.loops;
    set(&mut loops.window_size, layer.kill_switch_window_size.map(Number::get));
    set(&mut loops.threshold_tenths, layer.kill_switch_threshold.map(ThresholdTenths::get));
    set(&mut loops.exempt_tools, layer.exempt_tools.clone());
    set(&mut loops.profile, layer.profile);
    set(&mut loops.back_to_back, layer.loop_rules.back_to_back);
    set(&mut loops.within_window, layer.loop_rules.within_window);
    set(&mut loops.unbroken, layer.loop_rules.unbroken);
    set(&mut loops.nothing_new, layer.loop_rules.nothing_new);
    set(&mut loops.nudge, layer.loop_rules.nudge);
    set(&mut loops.score, layer.loop_score);
    set(&mut policy.block_response, layer.block_response);
    set(&mut policy.evidence, layer.evidence);
    set(&mut policy.limits.wrap_up_tools, layer.wrap_up_tools.clone());
    set(&mut policy.limits.test_runners, layer.test_runners.clone());
    let loops = &mut policy.modes[Guard::Loop];
    set(loops, layer.kill_switch_enabled.map(|on| if on { Mode::Enforce } else { Mode::Shadow }));
    layer.guards.merge(&mut policy.modes);
    merge_budget(&mut policy.budget, &layer.budget, zones);
    merge_rate(&mut policy.rate, &layer.rate_limit);
    set(&mut policy.models.allow, layer.models.allow.clone());
    set(&mut policy.models.deny, layer.models.deny.clone());
    merge_limits(&mut policy.limits, &layer.limits);
}

/// The keys of a layer, and whether it says anything about each.
pub(super) fn keys_set(policy: &PolicyIn) -> [(&'static str, bool); 18] {
    let PolicyIn {
        preset,
        kill_switch_enabled,
        kill_switch_window_size,
        kill_switch_threshold,
        exempt_tools,
        loop_rules,
        loop_score,
        profile,
        budget,
        allowed_hours,
        rate_limit,
        models,
        block_response,
        evidence,
        guards,
        wrap_up_tools,
        test_runners,
        limits,
    } = policy;
    [
        ("preset", preset.is_some()),
        ("kill_switch_enabled", kill_switch_enabled.is_some()),
        ("kill_switch_window_size", kill_switch_window_size.is_some()),
        ("kill_switch_threshold", kill_switch_threshold.is_some()),
        ("exempt_tools", exempt_tools.is_some()),
        ("loop_rules", *loop_rules != Default::default()),
        ("loop_score", loop_score.is_some()),
        ("profile", profile.is_some()),
        ("budget", *budget != Default::default()),
        ("allowed_hours", *allowed_hours != Default::default()),
        ("rate_limit", *rate_limit != Default::default()),
        ("models", *models != Default::default()),
        ("block_response", block_response.is_some()),
        ("evidence", evidence.is_some()),
        ("guards", *guards != Default::default()),
        ("wrap_up_tools", wrap_up_tools.is_some()),
        ("test_runners", test_runners.is_some()),
        ("limits", *limits != Default::default()),
    ]
}

/// What a section may hold. `zone` is the schema of the names of time zones.
pub fn rules_schema(zone: &Value) -> Value {
    let mut rules = schema::section(json!({
        "preset": schema::preset(),
        "kill_switch_enabled": schema::flag("Stop loops: the same switch as guards.loop; true is enforce, false is shadow."),
        "kill_switch_window_size": schema::number(5, 100, "Requests remembered for each conversation. Default: 20."),
        "kill_switch_threshold": {
            "type": "number",
            "minimum": 1,
            "maximum": 50,
            "description": "How much an agent may repeat; lower stops earlier. Default: 10.0.",
        },
        "exempt_tools": schema::names("Tools that repeat on purpose: their calls are no repetition."),
        "loop_rules": schema::section(json!({
            "back_to_back": schema::flag("The same step, or a block of steps, back to back is a loop. Default: true."),
            "within_window": schema::flag("The same step again and again within twenty is a loop. Default: true."),
            "unbroken": schema::flag("The same call without a break is a loop; holds with loop_score: literal. Default: true."),
            "nothing_new": schema::flag("A long stretch of steps without anything new is a loop. Default: true."),
            "nudge": schema::flag("An agent behind hooks is told that it repeats itself before it is stopped. Default: true."),
        })),
        "loop_score": schema::one_of(
            &["novelty", "literal"],
            "novelty (default): repetition counts only where nothing new happened. literal: it counts whatever came of it.",
        ),
        "profile": schema::one_of(
            &["coding", "interactive", "batch", "ops"],
            "What work the agent does: coding (default), interactive (a person answers), batch (one template for many items), \
             ops (it watches and waits).",
        ),
        "budget": schema::budget(zone),
        "allowed_hours": schema::hours(zone),
        "rate_limit": schema::section(json!({
            "requests_per_minute": schema::per_minute("Requests in any 60 seconds."),
            "tokens_per_minute": schema::tokens("Tokens in any 60 seconds, in and out."),
        })),
        "models": schema::section(json!({
            "allow": schema::models("Only these models; an empty list allows every model."),
            "deny": schema::models("Never these models, also if they are allowed."),
        })),
        "block_response": schema::one_of(
            &["error", "message"],
            "How a refusal looks to the client: error (default), or message: a final answer with status 200.",
        ),
        "evidence": schema::one_of(
            &["off", "redacted", "full"],
            "What is kept of the steps before a stop: off, redacted (default: short excerpts, secrets masked) or full.",
        ),
        "guards": schema::guards(),
        "wrap_up_tools": schema::names("Tools that still pass on a tripped run. Default: [report_complete, report_blocked]."),
        "test_runners": schema::runners(),
        "limits": schema::limits(),
    }));
    rules["anyOf"] = schema::one_switch();
    rules
}

/// The sections of a policy file, without `agents`, by their keys. `zone` is the schema of the names of time zones.
pub fn sections_schema(zone: &Value) -> Vec<(&'static str, Value)> {
    vec![
        ("preset", schema::preset()),
        ("policy", rules_schema(zone)),
        ("circuit_breakers", schema::circuit_breakers()),
        ("gate", schema::gate()),
        ("watchdog", schema::watchdog()),
        ("budget", schema::fleet_budget(zone)),
    ]
}

/// A policy as people write it. What is not set is null.
pub fn in_file_shape(policy: &Policy) -> Map<String, Value> {
    let LoopPolicy {
        window_size,
        threshold_tenths,
        exempt_tools,
        profile,
        back_to_back,
        within_window,
        unbroken,
        nothing_new,
        nudge,
        score,
    } = &policy.loops;
    let shape = json!({
        "preset": shown::plain(&policy.preset),
        "kill_switch_enabled": policy.modes[Guard::Loop] == Mode::Enforce,
        "kill_switch_window_size": window_size,
        "kill_switch_threshold": shown::number(u64::from(*threshold_tenths), 1),
        "exempt_tools": exempt_tools,
        "loop_rules": {
            "back_to_back": back_to_back,
            "within_window": within_window,
            "unbroken": unbroken,
            "nothing_new": nothing_new,
            "nudge": nudge,
        },
        "loop_score": shown::plain(score),
        "profile": shown::plain(profile),
        "budget": shown::budget(&policy.budget),
        "allowed_hours": policy.hours.as_ref().map(shown::hours),
        "rate_limit": shown::plain(&policy.rate),
        "models": {"allow": policy.models.allow, "deny": policy.models.deny},
        "block_response": shown::plain(&policy.block_response),
        "evidence": policy.evidence.name(),
        "guards": shown::guards(&policy.modes),
        "wrap_up_tools": policy.limits.wrap_up_tools,
        "test_runners": policy.limits.test_runners,
        "limits": shown::limits(&policy.limits),
    });
    match shape {
        Value::Object(shape) => shape,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

pub(super) fn merge_budget(budget: &mut BudgetPolicy, layer: &BudgetIn, zones: &Zones) {
    let nano = |micro: MicroUsd| NanoUsd(micro.get() * 1000);
    budget.usd_per_day = layer.usd_per_day.map(nano).or(budget.usd_per_day);
    budget.usd_per_month = layer.usd_per_month.map(nano).or(budget.usd_per_month);
    budget.usd_per_run = layer.usd_per_run.map(nano).or(budget.usd_per_run);
    budget.tokens_per_day = layer.tokens_per_day.map(Number::get).or(budget.tokens_per_day);
    budget.tokens_per_month = layer.tokens_per_month.map(Number::get).or(budget.tokens_per_month);
    budget.tokens_per_run = layer.tokens_per_run.map(Number::get).or(budget.tokens_per_run);
    set(&mut budget.zone, layer.timezone.as_ref().map(|name| zone(zones, name)));
    set(&mut budget.unpriced, layer.unpriced);
    set(&mut budget.paths.allow, layer.paths.allow.clone());
}

fn merge_rate(rate: &mut RateLimit, layer: &RateLimitIn) {
    rate.requests_per_minute = layer.requests_per_minute.map(Number::get).or(rate.requests_per_minute);
    rate.tokens_per_minute = layer.tokens_per_minute.map(Number::get).or(rate.tokens_per_minute);
}

pub(super) fn merge_limits(limits: &mut Limits, layer: &LimitsIn) {
    let own = &mut limits.set;
    let mut lay = |name: LimitName, target: &mut Limit, given: Option<Limit>| {
        if let Some(limit) = given {
            *target = limit;
            own.add(name);
        }
    };
    lay(LimitName::Iterations, &mut limits.max_iterations, layer.max_iterations);
    lay(LimitName::ToolCalls, &mut limits.max_tool_calls, layer.max_tool_calls);
    lay(LimitName::Turns, &mut limits.max_turns, layer.max_turns);
    lay(LimitName::ActiveDuration, &mut limits.max_active_duration, layer.max_active_duration);
    lay(LimitName::SleepDuration, &mut limits.max_sleep_duration, layer.max_sleep_duration);
    set(&mut limits.warning_threshold_bp, layer.warning_threshold.map(Number::get));
}

pub(super) fn zone(zones: &Zones, name: &str) -> Zone {
    zones.get(name).cloned().expect("every zone was found when the file was checked")
}

pub(super) fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}
