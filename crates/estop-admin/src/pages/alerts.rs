//! Who is told, and how that does (AL-1, AL-3): channels with a test, rules, mutes, the delivery log.

use std::collections::BTreeMap;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::ids::Name;
use estop_store::{DeliveryFilter, LoggedDelivery};
use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::Frame;
use super::shown::{Badge, when};
use super::{Page, made};
use crate::access::Caller;
use crate::alerts::rules::{Origin, RuleView, every};
use crate::alerts::{read_cursor, text, type_names, waiting};
use crate::alerts_api::{ChannelView, MuteView};
use crate::input::QueryIn;
use crate::input::etag;
use crate::output::{kept_json, moment};
use crate::problem::Problem;
use crate::state::App;

const ROWS: usize = 25;

/// What an empty page offers to copy.
const YAML: &str = "alerts:\n  channels:\n    ops: {type: slack, url_env: SLACK_WEBHOOK_URL}";

#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    channel: String,
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "alerts.html")]
struct AlertsPage {
    frame: Frame,
    yaml: &'static str,
    store_error: Option<String>,
    /// Stops of every agent are muted for so long.
    muted: Option<String>,
    channels: Vec<ChannelRow>,
    rules: Vec<RuleRow>,
    /// No rule is in force.
    everything: bool,
    mutes: Vec<MuteRow>,
    types: Vec<Choice>,
    /// The log of this channel alone.
    only: String,
    log: Vec<LogRow>,
    next: Option<String>,
}

struct ChannelRow {
    name: String,
    kind: &'static str,
    to: String,
    badge: Badge,
    how: String,
    said: String,
    waiting: u64,
}

struct RuleRow {
    id: String,
    origin: &'static str,
    badge: Badge,
    of: String,
    to: String,
    problem: Option<String>,
    /// The API's: it can be deleted.
    own: bool,
    /// The version that is shown: whoever changes an older one is told.
    etag: String,
    /// What the button beside it does.
    switch: Option<Switch>,
}

struct Switch {
    label: &'static str,
    done: &'static str,
    method: &'static str,
    body: Option<String>,
    /// What is asked first.
    ask: Option<String>,
}

struct MuteRow {
    id: String,
    what: String,
    until: String,
    left: String,
    by: String,
    why: String,
}

struct Choice {
    name: &'static str,
    label: String,
}

struct LogRow {
    at: String,
    when: String,
    channel: String,
    title: String,
    attempt: u32,
    badge: Badge,
    said: String,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| alerts(app, &caller, &asked)).await
}

fn alerts(app: &App, caller: &Caller, asked: &PageQuery) -> Result<AlertsPage, Problem> {
    let now = app.now();
    let before = asked.before.as_deref().filter(|text| !text.is_empty()).map(read_cursor).transpose()?;
    let only = asked.channel.trim().to_owned();
    let target = (!only.is_empty()).then(|| only.as_str().into());
    let log = app.store_here().deliveries(&DeliveryFilter { target, before }, ROWS)?;
    let next = log.last().filter(|_| log.len() == ROWS);
    let next = next.map(|last| format!("/alerts?channel={}&before={}#log", plain(&only), last.id));
    let waiting = waiting(app)?;
    let rules = every(app)?;
    let mutes = app.alerts_api.mutes();
    let muted = mutes.iter().filter(|mute| hides_stops(mute)).map(|mute| mute.until).max();
    let channel = |view: ChannelView| {
        let count = waiting.get(&view.name).copied().unwrap_or(0);
        ChannelRow::of(view, count, now)
    };
    Ok(AlertsPage {
        frame: Frame::of(app, caller, "/alerts", "Alerts")?,
        yaml: YAML,
        store_error: app.alerts_api.store_error(),
        channels: app.alerts_api.channels().into_iter().map(channel).collect(),
        everything: !rules.iter().any(|rule| rule.in_force),
        rules: rule_rows(rules),
        muted: muted.map(|until| span(until - now)),
        mutes: mutes.into_iter().map(|mute| MuteRow::of(mute, now)).collect(),
        types: type_names().map(|name| Choice { name, label: words(name) }).collect(),
        only,
        log: log.into_iter().map(|logged| LogRow::of(logged, now)).collect(),
        next,
    })
}

/// Nobody hears of any agent's stop.
fn hides_stops(mute: &MuteView) -> bool {
    let by_type = mute.types.is_empty() || mute.types.iter().any(|name| &**name == "kill_switch");
    by_type && mute.agents.is_empty()
}

/// For a query: what is not plain is left out, and then nothing is found.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')).collect()
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

impl ChannelRow {
    fn of(view: ChannelView, waiting: u64, now: i64) -> ChannelRow {
        let rests = view.rests_until.filter(|until| *until > now);
        let badge = match (view.failures, view.said.is_empty()) {
            (0, true) => Badge::new("", "not tried yet"),
            (0, false) => Badge::new("ok", "works"),
            (1.., _) => Badge::new("stop", "fails"),
        };
        let mut how = match view.failures {
            0 => String::new(),
            1 => "1 try failed".to_owned(),
            many => format!("{many} tries in a row failed"),
        };
        if let Some(until) = rests {
            how += &format!(", next one in {}", span(until - now));
        }
        let (name, to, said) = (view.name.into(), view.to.into(), view.said.into());
        ChannelRow { name, kind: view.kind, to, badge, how, said, waiting }
    }
}

/// `45 s`, `12 min`, `3 h`, `6 d`; rounded up, so that nothing ends in 0 of them.
fn span(ms: i64) -> String {
    let up = |unit_ms: i64| (ms.max(0) + unit_ms - 1) / unit_ms;
    match (up(1000), up(60_000), up(3_600_000)) {
        (seconds @ ..60, _, _) => format!("{seconds} s"),
        (_, minutes @ ..100, _) => format!("{minutes} min"),
        (_, _, hours @ ..48) => format!("{hours} h"),
        (_, _, _) => format!("{} d", up(86_400_000)),
    }
}

/// The rules, each knowing whether the file has one of its name.
fn rule_rows(rules: Vec<RuleView>) -> Vec<RuleRow> {
    let filed = rules.iter().filter(|rule| rule.origin == Origin::File);
    let filed: BTreeMap<Name, Value> = filed.map(|rule| (rule.id.clone(), rule.rule.clone())).collect();
    rules.into_iter().map(|rule| RuleRow::of(&rule, filed.get(&rule.id))).collect()
}

impl RuleRow {
    fn of(view: &RuleView, filed: Option<&Value>) -> RuleRow {
        let own = view.origin == Origin::Api;
        let badge = match (view.in_force, view.enabled, own) {
            (true, _, _) => Badge::new("ok", "in force"),
            (false, false, _) => Badge::new("", "off"),
            (false, true, true) => Badge::new("stop", "cannot be used"),
            (false, true, false) => Badge::new("", "replaced"),
        };
        let types = listed(&view.rule, "types", "everything but checkpoints");
        let agents = listed(&view.rule, "agents", "");
        let of = if agents.is_empty() { words(&types) } else { format!("{} of {agents}", words(&types)) };
        RuleRow {
            of,
            to: listed(&view.rule, "channels", "every channel"),
            origin: if own { "API" } else { "file" },
            badge,
            problem: view.problem.clone(),
            own,
            etag: etag(view.version),
            switch: Switch::of(view, filed),
            id: view.id.to_string(),
        }
    }
}

impl Switch {
    fn of(view: &RuleView, filed: Option<&Value>) -> Option<Switch> {
        let put = |enabled: bool| Some(json!({"enabled": enabled, "rule": view.rule}).to_string());
        let own = view.origin == Origin::Api;
        match (view.enabled && view.in_force, own, filed) {
            (true, _, _) => Some(Switch {
                label: "Switch off",
                done: "Switched off.",
                method: "PUT",
                body: put(false),
                ask: None,
            }),
            // It only takes the file's away. A copy of that, switched on, would hide what the file says from then on.
            (false, true, Some(filed)) if !view.enabled => Some(Switch {
                label: "Switch on",
                done: "Switched on: the file decides again.",
                method: "DELETE",
                body: None,
                ask: (said(filed) != said(&view.rule)).then(|| {
                    format!(
                        "Switch on {} as the file has it? What the API says of it differs and is deleted.",
                        view.id
                    )
                }),
            }),
            (false, true, _) => Some(Switch {
                label: "Switch on",
                done: "Switched on.",
                method: "PUT",
                body: put(true),
                ask: None,
            }),
            (false, false, _) => None,
        }
    }
}

/// What a rule says; the file's form also has what it does not say.
fn said(rule: &Value) -> Vec<(&String, &Value)> {
    let is_said = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
    let said = rule.as_object().into_iter().flatten().filter(|(_, value)| is_said(value));
    let mut said: Vec<(&String, &Value)> = said.collect();
    said.sort_by_key(|(key, _)| *key);
    said
}

/// The names of a list; without any, what that means.
fn listed(rule: &Value, key: &str, none: &str) -> String {
    let names = rule[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

impl MuteRow {
    fn of(mute: MuteView, now: i64) -> MuteRow {
        let types = match mute.types.as_slice() {
            [] => "Everything but the red button".to_owned(),
            types => words(&types.join(", ")),
        };
        let agents =
            if mute.agents.is_empty() { String::new() } else { format!(" of {}", mute.agents.join(", ")) };
        MuteRow {
            id: mute.id.into(),
            what: format!("{types}{agents}"),
            until: moment(mute.until),
            left: span(mute.until - now),
            by: mute.by.into(),
            why: mute.why.into(),
        }
    }
}

impl LogRow {
    fn of(logged: LoggedDelivery, now: i64) -> LogRow {
        let payload = logged.payload.as_deref().map(kept_json).unwrap_or_default();
        let badge = match &*logged.outcome {
            "delivered" => Badge::new("ok", "delivered"),
            "retry" => Badge::new("near", "failed, tried again"),
            _ => Badge::new("stop", "given up"),
        };
        LogRow {
            at: moment(logged.at),
            when: when(logged.at, now),
            channel: logged.target.into(),
            title: text(&payload, "title").unwrap_or_else(|| logged.dedupe.into()),
            attempt: logged.attempt,
            badge,
            said: logged.detail,
        }
    }
}
