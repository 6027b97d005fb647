//! The journal's events, to search; export and verification are the API's.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use estop_core::guard::Guard;
use estop_core::ids::Name;
use estop_store::{EventKey, StoredEvent};
use serde::Deserialize;

use super::csv;
use super::event_row::EventRow;
use super::frame::Frame;
use super::{Page, made};
use crate::access::Caller;
use crate::events::{Search, cursor, guard_named, read_cursor};
use crate::input::QueryIn;
use crate::problem::{Kind, Problem};
use crate::state::App;
use crate::time_range::TimeRange;

const ROWS: usize = 50;
/// What comes first.
const SORTS: [&str; 2] = ["newest", "oldest"];

/// What is asked for: all of it is in the address, for the page and for the file.
#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    agent: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    guard: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    sort: String,
    /// The page goes on after this event, in whatever order.
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "journal.html")]
struct JournalPage {
    frame: Frame,
    asked: PageQuery,
    guards: Vec<&'static str>,
    sorts: [&'static str; SORTS.len()],
    events: Vec<EventRow>,
    /// Why there are none.
    none: String,
    next: Option<String>,
    /// Where the same is a file.
    csv: String,
}

impl PageQuery {
    /// What is searched for; or why its agent cannot be.
    fn search(&self, app: &App) -> Result<Result<Search, Problem>, Problem> {
        let named = |text: &str| (!text.trim().is_empty()).then(|| Name::from(text.trim().replace(' ', "_")));
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let sort = Some(&*self.sort).filter(|sort| !sort.is_empty()).unwrap_or(SORTS[0]);
        if !SORTS.contains(&sort) {
            return Err(Problem::field("sort", "must be newest or oldest"));
        }
        let search = Search {
            agent: None,
            event_type: named(&self.kind),
            guard: named(&self.guard).as_deref().map(guard_named).transpose()?,
            range: TimeRange::read(&self.from, &self.to)?,
            oldest_first: sort != SORTS[0],
            cursor: given(&self.after).map(|text| read_cursor("after", &text)).transpose()?,
        };
        match app.agent_filter(named(&self.agent)) {
            Ok(agent) => Ok(Ok(Search { agent, ..search })),
            Err(problem) if problem.kind() == Kind::NotFound => Ok(Err(problem)),
            Err(problem) => Err(problem),
        }
    }

    /// The query of a link to the same.
    fn query(&self) -> String {
        let mut query = format!("agent={}&type={}", plain(&self.agent), plain(&self.kind.replace(' ', "_")));
        let others = [("guard", &self.guard), ("from", &self.from), ("to", &self.to), ("sort", &self.sort)];
        for (key, value) in others.into_iter().filter(|(_, value)| !value.trim().is_empty()) {
            query.push_str(&format!("&{key}={}", plain(value).replace('+', "%2B")));
        }
        query
    }
}

/// The same as a file.
pub(super) async fn csv(State(app): State<App>, QueryIn(asked): QueryIn<PageQuery>) -> Page {
    let here = Arc::clone(&app);
    app.work(move || {
        let now = here.now();
        let (events, _) = asked.search(&here)??.read(here.store_here(), csv::ROWS_MAX)?;
        let rows = events.into_iter().map(|found| {
            let row = EventRow::of(found, now);
            vec![row.at, row.kind, row.agent.unwrap_or_default(), row.text, row.seq.to_string()]
        });
        Ok(csv::file("journal", &["at", "event", "agent", "why", "record"], rows))
    })
    .await
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    QueryIn(asked): QueryIn<PageQuery>,
) -> Page {
    made(app, move |app| {
        let store = app.store_here();
        let (mut none, mut next): (String, Option<EventKey>) = ("No matching events.".to_owned(), None);
        let mut events: Vec<StoredEvent> = Vec::new();
        match asked.search(app)? {
            Ok(search) => (events, next) = search.read(store, ROWS)?,
            Err(unknown) => none = unknown.detail().to_owned(),
        }
        let (query, now) = (asked.query(), app.now());
        let rows = events.into_iter().map(|found| EventRow::of(found, now).with_steps(store));
        Ok::<_, Problem>(JournalPage {
            frame: Frame::of(app, &caller, "/journal", "Journal")?,
            guards: Guard::ALL.into_iter().map(Guard::name).collect(),
            sorts: SORTS,
            events: rows.collect::<Result<_, _>>()?,
            none,
            next: next.map(|last| format!("/journal?{query}&after={}", cursor(last))),
            csv: format!("/journal.csv?{query}"),
            asked,
        })
    })
    .await
}

fn plain(text: &str) -> String {
    text.trim().chars().filter(|c| c.is_ascii_alphanumeric() || "._-:+".contains(*c)).collect()
}
