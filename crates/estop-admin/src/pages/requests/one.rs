//! One request as the journal has it: when, of which model, what each guard said, how it ended, what it used.

use std::collections::BTreeMap;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::ended::Ended;
use estop_core::event::{EventKind, RequestReceived, Usage};
use estop_core::guard::Guard;
use estop_core::ids::{Name, RequestId};
use estop_core::printable::named;
use estop_core::time::Millis;
use estop_journal::Record;
use estop_store::CaseFilter;
use serde::Deserialize;
use serde_json::Value;

use super::super::frame::Frame;
use super::super::shown::{Badge, money, sentence, when};
use super::super::{Page, made};
use super::{How, became, refusing};
use crate::access::Caller;
use crate::agents::row;
use crate::input::{InPath, PathIn};
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;

/// Records of the agent after the request that are looked through for its answer, a hundred at a time.
const ANSWER_WITHIN: u64 = 5_000;
const READ: usize = 100;

#[derive(Template)]
#[template(path = "request.html")]
struct RequestPage {
    frame: Frame,
    agent: String,
    at: String,
    when: String,
    badge: Badge,
    by: String,
    facts: Vec<(&'static str, String)>,
    /// The page of its run's requests.
    run: Option<String>,
    verdicts: Vec<Verdict>,
    incident: Option<String>,
    seq: u64,
}

struct Verdict {
    guard: &'static str,
    badge: Badge,
    saw: String,
}

/// How an answer ended, and when.
struct Answer {
    how: How,
    usage: Usage,
    at: Millis,
    first_byte_ms: Option<u32>,
}

/// The same request, asked before.
struct Earlier {
    number: u64,
    seq: u64,
    ago_ms: u64,
    became: Option<How>,
}

/// Which request.
#[derive(Deserialize)]
pub(in super::super) struct RequestPath {
    id: Name,
    /// Its record in the journal.
    seq: u64,
}

impl InPath for RequestPath {}

pub(in super::super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(RequestPath { id, seq }): PathIn<RequestPath>,
) -> Page {
    made(app, move |app| {
        let found = row::find(app, &id)?;
        let agent = found.name().to_owned();
        let line = app.store_here().records_of(&agent, Some(seq.saturating_add(1)), 1)?.into_iter().next();
        let not_found = || Problem::not_found("request", &seq.to_string());
        let line = line.ok_or_else(not_found)?;
        let record = Record::parse(&line).map_err(|_| not_found())?;
        let event = record.event.as_ref().filter(|_| record.seq == seq).ok_or_else(not_found)?;
        let EventKind::RequestReceived(request) = &event.what else { return Err(not_found()) };
        let answer = answer_to(app, &agent, seq, request.request)?;
        let (badge, by) = became(record.decision, answer.as_ref().map(|answer| answer.how));
        let incident = incident_of(app, &agent, &record)?;
        let earlier = earlier(app, &agent, seq, record.now.mono, request)?;
        let run = event.run.as_deref().map(|run| format!("/agents/{agent}/requests?run={run}"));
        Ok(RequestPage {
            frame: Frame::of(app, &caller, "", &format!("Request {} of {agent}", request.request.0))?,
            at: moment(record.now.wall),
            when: when(record.now.wall, app.now()),
            facts: facts(request, event.run.as_deref(), answer.as_ref(), record.now.mono, earlier.as_ref()),
            verdicts: verdicts(record.decision),
            run,
            agent,
            badge,
            by,
            incident,
            seq,
        })
    })
    .await
}

/// The answer to a request, if it is among the agent's next records.
fn answer_to(app: &App, agent: &str, seq: u64, request: RequestId) -> Result<Option<Answer>, Problem> {
    let mut before = seq.saturating_add(ANSWER_WITHIN);
    let mut latest = None;
    loop {
        let page = app.store_here().records_of(agent, Some(before), READ)?;
        let mut oldest = 0;
        for record in page.iter().filter_map(|line| Record::parse(line).ok()) {
            oldest = record.seq;
            if record.seq <= seq {
                return Ok(latest);
            }
            let ended = match record.event.as_ref().map(|event| &event.what) {
                Some(EventKind::ResponseCompleted(done)) if done.request == request => {
                    Some((How::Ended(done.ended), done.usage, done.first_byte_ms))
                }
                Some(EventKind::StreamAborted(cut)) if cut.request == request => {
                    Some((How::Cut(cut.by), cut.usage, None))
                }
                Some(_) | None => None,
            };
            // The first answer counts, and pages go backwards.
            let answer = ended.map(|(how, usage, first_byte_ms)| Answer {
                how,
                usage,
                at: record.now.mono,
                first_byte_ms,
            });
            latest = answer.or(latest);
        }
        if page.len() < READ || oldest == 0 {
            return Ok(latest);
        }
        before = oldest;
    }
}

/// The incident that it opened, or the one that its agent was stopped by.
fn incident_of(app: &App, agent: &str, record: &Record<'_>) -> Result<Option<String>, Problem> {
    let store = app.store_here();
    let id = format!("{agent}-{}", record.seq);
    if store.incident(&id)?.is_some() {
        return Ok(Some(id));
    }
    if refusing(record.decision) != Some(Guard::Agent) {
        return Ok(None);
    }
    let before = Some((record.now.wall.saturating_add(1), Name::default()));
    let of = CaseFilter { agent: Some(agent.into()), before, ..CaseFilter::default() };
    Ok(store.incidents(&of, 1)?.first().map(|incident| incident.id.to_string()))
}

/// The newest request before it that asked exactly the same, if it is among the agent's last records: a client tried again.
fn earlier(
    app: &App,
    agent: &str,
    seq: u64,
    at: Millis,
    request: &RequestReceived,
) -> Result<Option<Earlier>, Problem> {
    let mut ends = BTreeMap::new();
    for line in app.store_here().records_of(agent, Some(seq), READ)? {
        let Ok(record) = Record::parse(&line) else { continue };
        match record.event.as_ref().map(|event| &event.what) {
            Some(EventKind::ResponseCompleted(done)) => {
                ends.insert(done.request, How::Ended(done.ended));
            }
            Some(EventKind::StreamAborted(cut)) => {
                ends.insert(cut.request, How::Cut(cut.by));
            }
            Some(EventKind::RequestReceived(before))
                if before.print == request.print && before.model == request.model =>
            {
                let ago_ms = at.since(record.now.mono);
                let became = ends.remove(&before.request);
                return Ok(Some(Earlier { number: before.request.0, seq: record.seq, ago_ms, became }));
            }
            Some(_) | None => {}
        }
    }
    Ok(None)
}

impl Earlier {
    fn words(&self) -> String {
        let Earlier { number, seq, ago_ms, became } = self;
        let (seconds, tenths) = (ago_ms / 1_000, ago_ms % 1_000 / 100);
        let how = match became {
            Some(How::Ended(Ended::Ok)) => "which was answered",
            Some(How::Ended(Ended::Failed)) => "which failed: a retry",
            Some(How::Cut(_)) => "which was broken off: a retry",
            Some(How::Ended(Ended::Unknown)) | None => "which was not answered by then",
        };
        format!("request {number} (record {seq}), {seconds}.{tenths} s before, {how}")
    }
}

fn facts(
    request: &RequestReceived,
    run: Option<&str>,
    answer: Option<&Answer>,
    began: Millis,
    earlier: Option<&Earlier>,
) -> Vec<(&'static str, String)> {
    let tools: Vec<String> = request
        .print
        .steps
        .iter()
        .map(|step| &step.tool)
        .filter(|tool| !tool.is_empty())
        .map(|tool| named(tool))
        .collect();
    let kind = match (request.print.continues, request.print.steps.len()) {
        (true, 0) => "goes on with what was asked before".to_owned(),
        (true, steps) => format!("goes on after {steps} steps"),
        (false, _) => "asks something new".to_owned(),
    };
    let mut facts = vec![
        ("Number", request.request.0.to_string()),
        ("Run", run.map_or_else(|| "none named".to_owned(), str::to_owned)),
        ("Model", request.model.as_deref().map_or_else(|| "not said".to_owned(), str::to_owned)),
        ("What it is", kind),
    ];
    facts.extend(earlier.map(|earlier| ("The same as", earlier.words())));
    if !tools.is_empty() {
        facts.push(("Tools used before it", tools.join(", ")));
    }
    if let Some(answer) = answer {
        let took = answer.at.since(began);
        let about = if answer.usage.estimated { "about " } else { "" };
        if let Some(first) = answer.first_byte_ms {
            facts.push(("First byte", format!("after {}.{:03} s", first / 1_000, first % 1_000)));
        }
        facts.push(("Took", format!("{}.{:03} s to the end of its answer", took / 1_000, took % 1_000)));
        let Usage { input_tokens, output_tokens, cache_read_tokens, reasoning_tokens, .. } = answer.usage;
        facts.push((
            "Tokens",
            format!(
                "{about}{input_tokens} in ({cache_read_tokens} from a cache), {output_tokens} out ({reasoning_tokens} of reasoning)"
            ),
        ));
        facts.push(("Cost", format!("{about}{}", money(answer.usage.usd))));
    }
    facts
}

/// What each guard said that was asked.
fn verdicts(decision: &str) -> Vec<Verdict> {
    let decision: Value = serde_json::from_str(decision).unwrap_or_default();
    let rulings = decision["rulings"].as_str().unwrap_or_default().as_bytes();
    let asked = Guard::ALL.into_iter().filter_map(|guard| {
        let badge = match rulings.get(guard.place())? {
            b'p' => Badge::new("ok", "passes"),
            b'w' => Badge::new("near", "warns"),
            b'x' => Badge::new("stop", "stops"),
            b's' => Badge::new("near", "would stop (shadow)"),
            b'o' => Badge::new("", "off"),
            _ => return None,
        };
        let seen = &decision["seen"][guard.name()];
        let saw = if seen.is_null() { String::new() } else { sentence(seen) };
        Some(Verdict { guard: guard.name(), badge, saw })
    });
    asked.collect()
}

#[cfg(test)]
mod tests {
    use super::verdicts;

    #[test]
    fn ev_1_a_request_shows_what_each_guard_said() {
        let shown =
            verdicts(r#"{"outcome":"allow","rulings":"ppo-x","seen":{"run":{"reason":"at its end"}}}"#);
        let texts: Vec<&str> = shown.iter().map(|verdict| &*verdict.badge.text).collect();
        assert_eq!(texts, ["passes", "passes", "off", "stops"], "one was not asked");
        assert_eq!(verdicts("{}").len(), 0);
        assert_eq!(verdicts("no JSON").len(), 0);
    }
}
