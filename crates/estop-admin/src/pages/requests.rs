//! An agent's newest requests as the journal has them: when, of which model, what became of each, what it used.

pub(super) mod one;

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use estop_core::ended::Ended;
use estop_core::event::{AbortedBy, EventKind, RequestReceived, Usage};
use estop_core::guard::Guard;
use estop_journal::Record;
use serde::Deserialize;
use serde_json::Value;

use super::csv;
use super::frame::Frame;
use super::shown::{Badge, grouped, money, when};
use super::{Page, made};
use crate::access::Caller;
use crate::agents::row;
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;

/// Requests on a page.
const ROWS: usize = 50;
/// Requests in a file.
const CSV_ROWS: usize = 1000;
/// After so many records no more are read for a page: an agent that does much else between two requests has fewer on it.
const ENOUGH: usize = 1000;
/// Records before the page's first that are looked through for answers to its requests.
const ANSWERS_WITHIN: u64 = 500;

#[derive(Deserialize)]
pub(super) struct PageQuery {
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestsPage {
    frame: Frame,
    agent: String,
    requests: Vec<RequestRow>,
    next: Option<String>,
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Page {
    made(app, move |app| {
        let before = asked.before.as_deref().filter(|text| !text.is_empty()).map(|text| {
            text.parse().map_err(|_| Problem::field("before", "must be the `before` of a page's link"))
        });
        let found = row::find(app, &name)?;
        let Newest { rows, next } = newest(app, found.name(), before.transpose()?, ROWS)?;
        Ok(RequestsPage {
            frame: Frame::of(app, &caller, "", &format!("Requests of {}", found.name()))?,
            agent: found.name().to_owned(),
            requests: rows,
            next: next.map(|seq| format!("/agents/{}/requests?before={seq}", found.name())),
        })
    })
    .await
}

/// The same as a file.
pub(super) async fn csv(State(app): State<App>, Path(name): Path<String>) -> Page {
    let asked = Arc::clone(&app);
    app.work(move || {
        let found = row::find(&asked, &name)?;
        let rows = newest(&asked, found.name(), None, csv::ROWS_MAX.min(CSV_ROWS))?.rows;
        let heading = ["at", "run", "model", "outcome", "by", "tokens", "cost", "record"];
        let rows = rows.into_iter().map(|row| {
            let outcome = row.badge.text.into_owned();
            vec![row.at, row.run, row.model, outcome, row.by, row.tokens, row.cost, row.seq.to_string()]
        });
        Ok(csv::file(&format!("requests-{}", found.name()), &heading, rows))
    })
    .await
}

/// A request in a list.
pub(super) struct RequestRow {
    pub(super) at: String,
    pub(super) when: String,
    pub(super) run: String,
    pub(super) model: String,
    pub(super) badge: Badge,
    /// By whom it was refused or ended.
    pub(super) by: String,
    pub(super) tokens: String,
    pub(super) cost: String,
    pub(super) seq: u64,
    /// Its own page.
    pub(super) href: String,
}

/// The newest requests, the newest first, and where the next page begins.
pub(super) struct Newest {
    pub(super) rows: Vec<RequestRow>,
    pub(super) next: Option<u64>,
}

/// At most `rows` requests before a record. What cannot be read is left out.
pub(super) fn newest(app: &App, agent: &str, before: Option<u64>, rows: usize) -> Result<Newest, Problem> {
    let mut found = Newest { rows: Vec::new(), next: None };
    let mut answers = BTreeMap::new();
    let mut place = before.map(|seq| seq.saturating_add(ANSWERS_WITHIN));
    // A request and its answer: in a large fleet each is in a block of its own.
    let (mut looked_through, mut read) = (0, 2 * rows.max(1));
    while looked_through < ENOUGH {
        let page = app.store_here().records_of(agent, place, read)?;
        let mut oldest = None;
        for record in page.iter().filter_map(|line| Record::parse(line).ok()) {
            let seq = record.seq;
            oldest = Some(seq);
            match record.event.as_ref().map(|event| &event.what) {
                Some(EventKind::ResponseCompleted(done)) => {
                    answers.insert(done.request, (How::Ended(done.ended), done.usage));
                }
                Some(EventKind::StreamAborted(cut)) => {
                    answers.insert(cut.request, (How::Cut(cut.by), cut.usage));
                }
                Some(EventKind::RequestReceived(request)) => {
                    let answer = answers.remove(&request.request);
                    if before.is_none_or(|before| seq < before) {
                        found.rows.push(RequestRow::of(&record, request, answer, app.now()));
                    }
                }
                Some(_) | None => {}
            }
            if found.rows.len() == rows {
                found.next = Some(seq);
                return Ok(found);
            }
        }
        if oldest.is_none() || page.len() < read {
            return Ok(found);
        }
        place = oldest;
        looked_through += read;
        read *= 2;
    }
    found.next = place;
    Ok(found)
}

/// How a request that was let through ended.
#[derive(Clone, Copy)]
enum How {
    Ended(Ended),
    Cut(AbortedBy),
}

impl RequestRow {
    fn of(
        record: &Record<'_>,
        request: &RequestReceived,
        answer: Option<(How, Usage)>,
        now: i64,
    ) -> RequestRow {
        let run = record.event.as_ref().and_then(|event| event.run.as_deref());
        let (badge, by) = became(record.decision, answer.map(|(how, _)| how));
        let used = answer.map(|(_, usage)| usage);
        let about = |usage: Usage| if usage.estimated { "about " } else { "" };
        RequestRow {
            at: moment(record.now.wall),
            when: when(record.now.wall, now),
            run: run.unwrap_or_default().to_owned(),
            model: request.model.as_deref().unwrap_or_default().to_owned(),
            badge,
            by,
            tokens: used.map_or_else(String::new, |used| {
                format!(
                    "{}{} in, {} out",
                    about(used),
                    grouped(used.input_tokens.into()),
                    grouped(used.output_tokens.into())
                )
            }),
            cost: used.map_or_else(String::new, |used| format!("{}{}", about(used), money(used.usd))),
            seq: record.seq,
            href: format!("/agents/{}/requests/{}", record.agent, record.seq),
        }
    }
}

/// Who refused it. Two guards keep a stop that somebody else made, and their names do not say so.
fn refused_by(guard: &str) -> String {
    match Guard::named(guard) {
        Some(Guard::System) => "by the red button".to_owned(),
        Some(Guard::Agent) => "because it was stopped or paused".to_owned(),
        _ => format!("by {guard}"),
    }
}

fn became(decision: &str, how: Option<How>) -> (Badge, String) {
    let decision: Value = serde_json::from_str(decision).unwrap_or_default();
    if let Some(by) = decision["outcome"]["refuse"]["by"].as_str() {
        return (Badge::new("stop", "refused"), refused_by(by));
    }
    let (badge, by) = match how {
        Some(How::Ended(Ended::Ok)) => (Badge::new("ok", "answered"), ""),
        Some(How::Ended(Ended::Failed)) => (Badge::new("near", "failed"), ""),
        Some(How::Ended(Ended::Unknown)) => (Badge::new("", "ended"), ""),
        Some(How::Cut(AbortedBy::Client)) => (Badge::new("", "left"), "by its client"),
        Some(How::Cut(AbortedBy::Upstream)) => (Badge::new("near", "broke off"), "by the provider"),
        Some(How::Cut(AbortedBy::Guard)) => (Badge::new("stop", "cut"), "by a guard"),
        Some(How::Cut(AbortedBy::Kill)) => (Badge::new("stop", "cut"), "by the red button"),
        None => (Badge::new("", "let through"), "no answer yet"),
    };
    (badge, by.to_owned())
}

#[cfg(test)]
mod tests {
    use super::became;

    #[test]
    fn ui_1_a_refused_request_says_by_whom() {
        let by = |guard: &str| {
            let decision = format!(r#"{{"outcome":{{"refuse":{{"by":"{guard}"}}}}}}"#);
            let (badge, by) = became(&decision, None);
            assert_eq!(badge.text, "refused");
            by
        };
        assert_eq!(by("loop"), "by loop");
        assert_eq!(by("agent"), "because it was stopped or paused");
        assert_eq!(by("system"), "by the red button");
        assert_eq!(became(r#"{"outcome":"allow"}"#, None).0.text, "let through");
    }
}
