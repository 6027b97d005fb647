//! An agent's newest requests as the journal has them: when, of which model, what became of each, what it used.

pub(super) mod one;

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
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
use crate::agents::AgentPath;
use crate::agents::row;
use crate::input::{PathIn, QueryIn};
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;
use crate::time_range::{TimeRange, place_of};

/// Requests on a page.
const ROWS: usize = 50;
/// Requests in a file.
const CSV_ROWS: usize = 1000;
/// After so many records no more are read for a page: an agent that does much else between two requests has fewer on it.
const ENOUGH: usize = 1000;
/// The same where only some requests are wanted: the next page goes on from there.
const ENOUGH_FILTERED: usize = 4000;
/// Records before the page's first that are looked through for answers to its requests.
const ANSWERS_WITHIN: u64 = 500;

/// What is asked for: all of it is in the address, for the page and for the file.
#[derive(Deserialize)]
pub(super) struct PageQuery {
    before: Option<String>,
    /// What became of it, in the words of its badge.
    #[serde(default)]
    outcome: String,
    /// Which guard refused it.
    #[serde(default)]
    guard: String,
    /// Of which run.
    #[serde(default)]
    run: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    /// What comes first.
    #[serde(default)]
    sort: String,
}

/// The order of the rows that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Newest,
    Cost,
    Tokens,
}

impl Sort {
    const ALL: [Sort; 3] = [Sort::Newest, Sort::Cost, Sort::Tokens];

    fn name(self) -> &'static str {
        match self {
            Sort::Newest => "newest",
            Sort::Cost => "cost",
            Sort::Tokens => "tokens",
        }
    }
}

/// What can be asked for, as the badges have it.
const OUTCOMES: [&str; 8] =
    ["refused", "answered", "failed", "ended", "left", "broke off", "cut", "let through"];

/// Which requests.
#[derive(Default)]
struct Wanted {
    outcome: Option<&'static str>,
    guard: Option<Guard>,
    run: Option<String>,
    range: TimeRange,
}

impl Wanted {
    fn has(&self, row: &RequestRow) -> bool {
        self.outcome.is_none_or(|outcome| row.badge.text == outcome)
            && self.guard.is_none_or(|guard| row.guard == Some(guard))
            && self.run.as_ref().is_none_or(|run| row.run == *run)
            && !self.range.is_ahead(row.wall)
    }

    fn is_filtered(&self) -> bool {
        self.outcome.is_some()
            || self.guard.is_some()
            || self.run.is_some()
            || self.range != TimeRange::default()
    }
}

impl PageQuery {
    fn wanted(&self) -> Result<Wanted, Problem> {
        let outcome = match &*self.outcome {
            "" => None,
            asked => {
                let known = OUTCOMES.into_iter().find(|known| *known == asked);
                Some(known.ok_or_else(|| {
                    Problem::field("outcome", format!("must be one of {}", OUTCOMES.join(", ")))
                })?)
            }
        };
        let guard = match &*self.guard {
            "" => None,
            asked => Some(
                Guard::named(asked).ok_or_else(|| Problem::field("guard", "must be the name of a guard"))?,
            ),
        };
        let run = Some(self.run.trim()).filter(|run| !run.is_empty());
        let is_name = |run: &&str| {
            run.len() <= 64 && run.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        if run.is_some_and(|run| !is_name(&run)) {
            return Err(Problem::field("run", "must be the name of a run"));
        }
        Ok(Wanted {
            outcome,
            guard,
            run: run.map(str::to_owned),
            range: TimeRange::read(&self.from, &self.to)?,
        })
    }

    fn sort(&self) -> Result<Sort, Problem> {
        let asked = Some(&*self.sort).filter(|sort| !sort.is_empty()).unwrap_or(Sort::Newest.name());
        let known = Sort::ALL.into_iter().find(|sort| sort.name() == asked);
        known.ok_or_else(|| Problem::field("sort", "must be newest, cost or tokens"))
    }

    fn before(&self) -> Result<Option<u64>, Problem> {
        let before = self.before.as_deref().filter(|text| !text.is_empty());
        let read = |text: &str| {
            text.parse().map_err(|_| Problem::field("before", "must be the `before` of a page's link"))
        };
        before.map(read).transpose()
    }

    /// The query of a link to the same. Everything in it was read before.
    fn query(&self) -> String {
        let mut query = format!("sort={}", self.sort);
        let asked = [
            ("outcome", &self.outcome),
            ("guard", &self.guard),
            ("run", &self.run),
            ("from", &self.from),
            ("to", &self.to),
        ];
        for (key, value) in asked.into_iter().filter(|(_, value)| !value.trim().is_empty()) {
            query.push_str(&format!("&{key}={}", value.trim().replace(' ', "+")));
        }
        query
    }
}

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestsPage {
    frame: Frame,
    agent: String,
    requests: Vec<RequestRow>,
    next: Option<String>,
    /// Where the same is a file.
    csv: String,
    is_filtered: bool,
    asked: PageQuery,
    outcomes: [&'static str; OUTCOMES.len()],
    guards: Vec<&'static str>,
    sorts: [&'static str; Sort::ALL.len()],
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    PathIn(path): PathIn<AgentPath>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| {
        let found = row::find(app, &path.id)?;
        let wanted = asked.wanted()?;
        let Newest { mut rows, next } = read(app, found.name(), asked.before()?, ROWS, &wanted)?;
        sort(&mut rows, asked.sort()?);
        let query = asked.query();
        Ok(RequestsPage {
            frame: Frame::of(app, &caller, "", &format!("Requests of {}", found.name()))?,
            agent: found.name().to_owned(),
            requests: rows,
            next: next.map(|seq| format!("/agents/{}/requests?{query}&before={seq}", found.name())),
            csv: format!("/agents/{}/requests.csv?{query}", found.name()),
            is_filtered: wanted.is_filtered(),
            outcomes: OUTCOMES,
            guards: Guard::ALL.into_iter().map(Guard::name).collect(),
            sorts: Sort::ALL.map(Sort::name),
            asked,
        })
    })
    .await
}

/// The same as a file.
pub(super) async fn csv(
    State(app): State<App>,
    PathIn(path): PathIn<AgentPath>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    let here = Arc::clone(&app);
    app.work(move || {
        let found = row::find(&here, &path.id)?;
        let (wanted, before) = (asked.wanted()?, asked.before()?);
        let mut rows = read(&here, found.name(), before, csv::ROWS_MAX.min(CSV_ROWS), &wanted)?.rows;
        sort(&mut rows, asked.sort()?);
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
    /// Which guard refused it.
    pub(super) guard: Option<Guard>,
    wall: i64,
    used: Option<Usage>,
}

/// The newest requests, the newest first, and where the next page begins.
pub(super) struct Newest {
    pub(super) rows: Vec<RequestRow>,
    pub(super) next: Option<u64>,
}

/// The dearest first, or those that used most; of equals, and of all others, the newest.
fn sort(rows: &mut [RequestRow], by: Sort) {
    let used = |row: &RequestRow| {
        row.used
            .map_or((0, 0), |used| (used.usd.0, u64::from(used.input_tokens) + u64::from(used.output_tokens)))
    };
    match by {
        Sort::Newest => {}
        Sort::Cost => rows.sort_by_key(|row| std::cmp::Reverse(used(row).0)),
        Sort::Tokens => rows.sort_by_key(|row| std::cmp::Reverse(used(row).1)),
    }
}

/// At most `rows` requests, the newest. What cannot be read is left out.
pub(super) fn newest(app: &App, agent: &str, rows: usize) -> Result<Newest, Problem> {
    read(app, agent, None, rows, &Wanted::default())
}

/// At most `rows` requests before a record, of those that are wanted.
fn read(
    app: &App,
    agent: &str,
    before: Option<u64>,
    rows: usize,
    wanted: &Wanted,
) -> Result<Newest, Problem> {
    let store = app.store_here();
    let before = match (before, wanted.range.to) {
        (None, Some(to)) => {
            let newest = |seq| {
                let line = store.records_of(agent, Some(seq), 1)?.into_iter().next();
                Ok(line
                    .as_deref()
                    .and_then(|line| Record::parse(line).ok())
                    .map(|record| (record.seq, record.now.wall)))
            };
            Some(place_of(to, store.last_seq()?, newest)?)
        }
        (before, _) => before,
    };
    let enough = if wanted.is_filtered() { ENOUGH_FILTERED } else { ENOUGH };
    let mut found = Newest { rows: Vec::new(), next: None };
    let mut answers = BTreeMap::new();
    let mut place = before.map(|seq| seq.saturating_add(ANSWERS_WITHIN));
    // A request and its answer: in a large fleet each is in a block of its own.
    let (mut looked_through, mut read) = (0, 2 * rows.max(1));
    while looked_through < enough {
        let page = store.records_of(agent, place, read)?;
        let mut oldest = None;
        for record in page.iter().filter_map(|line| Record::parse(line).ok()) {
            let seq = record.seq;
            oldest = Some(seq);
            if wanted.range.is_past(record.now.wall) {
                return Ok(found);
            }
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
                        let row = RequestRow::of(&record, request, answer, app.now());
                        found.rows.extend(Some(row).filter(|row| wanted.has(row)));
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
        let guard = refusing(record.decision);
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
            guard,
            wall: record.now.wall,
            used,
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

/// Which guard refuses by this decision.
fn refusing(decision: &str) -> Option<Guard> {
    let decision: Value = serde_json::from_str(decision).unwrap_or_default();
    Guard::named(decision["outcome"]["refuse"]["by"].as_str()?)
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
