//! What was found, for people and for machines.

use comfy_table::{ContentArrangement, Table, presets};
use estop_config::printable::escaped;
use estop_core::budget::Amount;
use estop_core::ids::Name;
use estop_core::policy::LoopPolicy;
use estop_journal::{Ends, RunEnd, Saved, SettingOutcome, TunedStop};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::setting::{PROFILES, profile_name, threshold, threshold_text, thresholds_around};
use super::write::Written;
use super::{AgentReport, Report};

/// Stops that are listed; `--json` has more of them.
const LISTED: usize = 5;
/// Names of agents that were not judged.
const NAMED: usize = 10;

const ASSUMED: &str = "estop cannot know which runs were healthy. It takes a run for healthy if it brought something new after the \
    moment it would have been stopped at, ended by itself and was not stopped by a person, and for stuck if a person switched the \
    agent off in the middle of it. All others are unclear: that is for you to say.";

impl Report {
    pub(super) fn text(&self) -> String {
        if self.agents.is_empty() {
            return "The journal has no requests and no tool calls of agents to judge.".to_owned();
        }
        let mut parts = vec![ASSUMED.to_owned()];
        parts.extend(self.agents.iter().map(AgentReport::text));
        if !self.left_out.is_empty() {
            let names: Vec<String> =
                self.left_out.iter().take(NAMED).map(|(name, _)| escaped(name)).collect();
            let more = if self.left_out.len() > NAMED { ", …" } else { "" };
            parts.push(format!(
                "{} more agents with fewer records were not judged ({}{more}): `--agent NAME` judges one.",
                self.left_out.len(),
                names.join(", ")
            ));
        }
        parts.join("\n\n")
    }

    pub(super) fn json(&self) -> Value {
        let left_out = |(name, records): &(Name, u64)| json!({"agent": &**name, "records": records});
        json!({
            "newest_record": moment(self.newest),
            "assumed": ASSUMED,
            "agents": self.agents.iter().map(AgentReport::json).collect::<Vec<_>>(),
            "not_judged": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
        })
    }
}

impl AgentReport {
    fn text(&self) -> String {
        let today = self.case().today();
        let mut lines = vec![self.about_traffic(), self.about_today(today)];
        if self.outcomes.iter().all(|outcome| outcome.loops.stops == 0) {
            lines.push(
                "None of the profiles, at none of the thresholds, would have stopped anything.".to_owned(),
            );
        } else {
            lines.push(self.table());
            self.list(today, "Today's setting", &mut lines);
        }
        if self.proposal.at != today {
            self.list(self.proposal.at, "The proposed setting", &mut lines);
        }
        lines.push(format!("Proposal: {}. {}", self.proposed(), self.proposal.reason));
        lines.join("\n")
    }

    fn about_traffic(&self) -> String {
        let traffic = self.traffic;
        let mut parts = vec![counted(traffic.requests, "request", "requests")];
        if traffic.tool_calls > 0 {
            parts.push(format!("{} seen by hooks", counted(traffic.tool_calls, "tool call", "tool calls")));
        }
        parts.push(format!(
            "{}, {} of which ended by themselves",
            counted(traffic.runs, "run", "runs"),
            traffic.ended
        ));
        parts.push(format!("{} spent", money(traffic.spent)));
        format!("{}: {}.", escaped(&self.name), parts.join("; "))
    }

    fn about_today(&self, today: usize) -> String {
        let setting = setting_text(&self.settings[today]);
        let is_on = if self.case().is_enforced() { "loops stop it" } else { "loops are only watched" };
        let stopped = match self.traffic.stopped {
            0 => String::new(),
            1 => " The loop guard stopped 1 run; what it would have done next is not known.".to_owned(),
            runs => {
                format!(" The loop guard stopped {runs} runs; what they would have done next is not known.")
            }
        };
        format!("Today: {setting}; {is_on}.{stopped}")
    }

    /// What is to change, as it stands in a policy.
    fn proposed(&self) -> String {
        if self.proposal.change.is_empty() {
            return "keep it".to_owned();
        }
        let rules = self.proposal.change.iter().map(|(key, value)| format!("`{key}: {}`", plain(value)));
        rules.collect::<Vec<_>>().join(", ")
    }

    fn table(&self) -> String {
        let thresholds = thresholds_around(&self.policy.loops);
        let (today, proposed) = (self.case().today(), self.proposal.at);
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        let heading = thresholds.iter().map(|tenths| format!("threshold {}", threshold_text(*tenths)));
        table.set_header(["runs stopped".to_owned()].into_iter().chain(heading));
        let rows = self.outcomes.chunks(thresholds.len()).enumerate();
        for ((row, outcomes), profile) in rows.zip(PROFILES) {
            let cell = |(column, outcome): (usize, &SettingOutcome)| {
                let at = row * thresholds.len() + column;
                let mark = match (at == today, at == proposed) {
                    (true, _) => " ← today",
                    (false, true) => " ← proposed",
                    (false, false) => "",
                };
                format!("{}{mark}", cell_text(outcome))
            };
            let cells = outcomes.iter().enumerate().map(cell);
            table.add_row([profile_name(profile).to_owned()].into_iter().chain(cells));
        }
        table.to_string()
    }

    fn list(&self, at: usize, which: &str, lines: &mut Vec<String>) {
        let SettingOutcome { loops, stops, .. } = &self.outcomes[at];
        if stops.is_empty() {
            return;
        }
        let told = match loops.nudges {
            0 => String::new(),
            1 => " Before, it would have told the agent once that it repeats itself.".to_owned(),
            times => format!(" Before, it would have told the agent {times} times that it repeats itself."),
        };
        lines.push(format!(
            "{which} would have made {} and saved {}.{told}",
            counted(loops.stops, "stop", "stops"),
            saved_text(loops.saved),
        ));
        lines.extend(stops.iter().rev().take(LISTED).map(|stop| format!("  {}", stop_text(stop))));
        let more = loops.stops.saturating_sub(LISTED as u64);
        if more > 0 {
            lines.push(format!("  {more} more; --json has the newest {}.", stops.len()));
        }
    }

    /// What became of the proposal, and how to go on.
    pub(super) fn written_text(&self, is_stored: bool) -> String {
        let name = escaped(&self.name);
        match self.written {
            Written::Yes => format!("{name}: written. `estop policy show {name}` shows its rules."),
            Written::No if is_stored => {
                format!("{name}: nothing was written. `estop tune --agent {name} --yes` writes it.")
            }
            Written::Unreachable | Written::No => {
                let why = if is_stored { "estop does not run" } else { "this is an exported journal" };
                let rules = self.proposal.change.iter();
                let rules: String =
                    rules.map(|(key, value)| format!("      {key}: {}\n", plain(value))).collect();
                let quoted = Value::from(&*self.name);
                let rules = rules.trim_end();
                format!(
                    "{name}: nothing was written, because {why}. In the configuration:\nagents:\n  {}:\n    policy:\n{rules}",
                    escaped(&quoted.to_string())
                )
            }
        }
    }

    fn json(&self) -> Value {
        let (case, traffic) = (self.case(), self.traffic);
        let settings = self.settings.iter().zip(&self.outcomes);
        json!({
            "agent": &*self.name,
            "records": traffic.records,
            "requests": traffic.requests,
            "tool_calls": traffic.tool_calls,
            "tokens": traffic.spent.tokens,
            "usd": usd(traffic.spent),
            "runs": traffic.runs,
            "ended_by_themselves": traffic.ended,
            "stopped_by_loop_guard": traffic.stopped,
            "today": setting_json(&self.settings[case.today()]),
            "enabled": case.is_enforced(),
            "settings": settings.map(|(setting, outcome)| outcome_json(setting, outcome)).collect::<Vec<_>>(),
            "proposal": {
                "setting": setting_json(&self.settings[self.proposal.at]),
                "change": self.proposal.change,
                "reason": self.proposal.reason,
            },
            "written": self.written == Written::Yes,
        })
    }
}

/// A rule's value as people write it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn setting_text(setting: &LoopPolicy) -> String {
    format!(
        "profile {}, threshold {}",
        profile_name(setting.profile),
        threshold_text(setting.threshold_tenths)
    )
}

fn setting_json(setting: &LoopPolicy) -> Value {
    json!({"profile": profile_name(setting.profile), "threshold": threshold(setting.threshold_tenths)})
}

/// `2 healthy, 1 unclear`
fn cell_text(outcome: &SettingOutcome) -> String {
    let Ends { by_itself, by_hand, .. } = outcome.ends;
    let parts = [(by_itself, "healthy"), (by_hand, "stuck"), (outcome.ends.unclear(), "unclear")];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { "0".to_owned() } else { parts }
}

fn stop_text(told: &TunedStop) -> String {
    let TunedStop { stop, request, tool, end } = told;
    let run = stop.run.as_deref().map_or_else(String::new, |run| format!(", run {}", escaped(run)));
    let request = if *request == 0 { String::new() } else { format!(", request {request} of its run") };
    let finding = escaped(&stop.finding.told(tool.as_deref()));
    format!("{}{run}{request}, record {}: {finding} {}", when(stop.wall), stop.seq, end_text(*end))
}

fn end_text(end: RunEnd) -> &'static str {
    match end {
        RunEnd::ByItself => "Afterwards the run brought something new and ended by itself: healthy.",
        RunEnd::WithoutNews => "The run ended by itself, but brought nothing new until then: unclear.",
        RunEnd::ByHand => "A person stopped the run: stuck.",
        RunEnd::ByLoopGuard { activated: true } => {
            "The loop guard stopped the run, and a person switched the agent on again: unclear."
        }
        RunEnd::ByLoopGuard { activated: false } => "The loop guard stopped the run: unclear.",
        RunEnd::Unknown => "Its end was not seen: unclear.",
    }
}

fn end_name(end: RunEnd) -> &'static str {
    match end {
        RunEnd::ByItself => "by_itself",
        RunEnd::WithoutNews => "by_itself_without_news",
        RunEnd::ByHand => "by_hand",
        RunEnd::ByLoopGuard { .. } => "by_loop_guard",
        RunEnd::Unknown => "unknown",
    }
}

fn tenths(score: u32) -> f64 {
    f64::from(score) / 10.0
}

fn outcome_json(setting: &LoopPolicy, outcome: &SettingOutcome) -> Value {
    let SettingOutcome { loops, ends, stops } = outcome;
    let stop = |told: &TunedStop| {
        let TunedStop { stop, request, tool, end } = told;
        json!({
            "record": stop.seq,
            "at": moment(stop.wall),
            "run": stop.run,
            "request": (*request > 0).then_some(request),
            "tool": tool,
            "reason": stop.finding.told(tool.as_deref()),
            "score": tenths(stop.finding.score),
            "other_score": stop.finding.other.map(|other| tenths(other.score)),
            "sparing_setting": stop.finding.sparing_setting(tool.as_deref()),
            "run_ended": end_name(*end),
            "switched_on_again": *end == RunEnd::ByLoopGuard { activated: true },
        })
    };
    json!({
        "profile": profile_name(setting.profile),
        "threshold": threshold(setting.threshold_tenths),
        "stops": loops.stops,
        "by_rule": loops.by_rule,
        "runs": loops.runs,
        "healthy": ends.by_itself,
        "stuck": ends.by_hand,
        "unclear": ends.unclear(),
        "stopped_by_loop_guard": ends.by_loop_guard,
        "switched_on_again": ends.activated,
        "nudges": loops.nudges,
        "saved": {
            "requests": loops.saved.requests,
            "tool_calls": loops.saved.tool_calls,
            "tokens": loops.saved.amount.tokens,
            "usd": usd(loops.saved.amount),
        },
        "newest": stops.iter().rev().map(stop).collect::<Vec<_>>(),
    })
}

fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn saved_text(saved: Saved) -> String {
    let tools = match saved.tool_calls {
        0 => String::new(),
        calls => format!(", {}", counted(calls, "tool call", "tool calls")),
    };
    format!("{}{tools} and {}", counted(saved.requests, "request", "requests"), money(saved.amount))
}

/// Dollars, and tokens where nothing has a price.
fn money(amount: Amount) -> String {
    if amount.usd.0 == 0 {
        return counted(amount.tokens, "token", "tokens");
    }
    format!("${:.4}", usd(amount))
}

fn usd(amount: Amount) -> f64 {
    amount.usd.0 as f64 / 1e9
}

fn moment(wall: i64) -> Option<String> {
    Timestamp::from_millisecond(wall).ok().map(|at| format!("{at:.3}"))
}

fn when(wall: i64) -> String {
    Timestamp::from_millisecond(wall)
        .map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}
