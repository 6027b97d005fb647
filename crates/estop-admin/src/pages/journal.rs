//! The journal's events, to search; export and verification are the API's.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use estop_store::{EventFilter, EventKey, StoredEvent};
use serde::Deserialize;

use super::csv;
use super::event_row::EventRow;
use super::frame::Frame;
use super::time_range::{TimeRange, place_of};
use super::{Page, made};
use crate::access::Caller;
use crate::events::{cursor, read_cursor};
use crate::problem::Problem;
use crate::state::App;

const ROWS: usize = 50;

#[derive(Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    agent: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "journal.html")]
struct JournalPage {
    frame: Frame,
    agent: String,
    kind: String,
    from: String,
    to: String,
    events: Vec<EventRow>,
    next: Option<String>,
    /// Where the same is a file.
    csv: String,
}

impl PageQuery {
    fn filter(&self, app: &App) -> Result<EventFilter, Problem> {
        let before = self.before.as_deref().filter(|text| !text.is_empty()).map(read_cursor).transpose()?;
        let named = |text: &str| (!text.trim().is_empty()).then(|| text.trim().replace(' ', "_").into());
        let (agent, event_type) = (app.agent_named(named(&self.agent)), named(&self.kind));
        Ok(EventFilter { agent, event_type, before })
    }

    /// At most so many events, the newest first, and where the next page begins.
    fn read(
        &self,
        app: &App,
        rows: usize,
    ) -> Result<(EventFilter, Vec<StoredEvent>, Option<EventKey>), Problem> {
        let range = TimeRange::read(&self.from, &self.to)?;
        let filter = self.filter(app)?;
        let store = app.store_here();
        let before = match (filter.before, range.to) {
            (None, Some(to)) => {
                let newest = |seq| {
                    let before = Some(EventKey { seq, nth: 0 });
                    let found = store.events(&EventFilter { before, ..filter.clone() }, 1)?;
                    Ok(found.first().map(|found| (found.key.seq, found.event.wall)))
                };
                Some(EventKey { seq: place_of(to, store.last_seq()?, newest)?, nth: 0 })
            }
            (before, _) => before,
        };
        let mut events = store.events(&EventFilter { before, ..filter.clone() }, rows)?;
        let is_full = events.len() == rows;
        let last = events.last().map(|last| last.key);
        let has_begun = events.iter().any(|found| range.is_past(found.event.wall));
        events.retain(|found| !range.is_past(found.event.wall) && !range.is_ahead(found.event.wall));
        Ok((filter, events, last.filter(|_| is_full && !has_begun)))
    }

    /// What is searched for, as the query of a link.
    fn query(&self, filter: &EventFilter) -> String {
        let text = |text: &Option<estop_core::ids::Name>| plain(text.as_deref().unwrap_or_default());
        let mut query = format!("agent={}&type={}", text(&filter.agent), text(&filter.event_type));
        for (key, value) in [("from", &self.from), ("to", &self.to)] {
            if !value.trim().is_empty() {
                query.push_str(&format!("&{key}={}", plain(value)));
            }
        }
        query
    }
}

/// The same as a file.
pub(super) async fn csv(State(app): State<App>, Query(asked): Query<PageQuery>) -> Page {
    let here = Arc::clone(&app);
    app.work(move || {
        let now = here.now();
        let (_, events, _) = asked.read(&here, csv::ROWS_MAX)?;
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
    Query(asked): Query<PageQuery>,
) -> Page {
    made(app, move |app| {
        let (filter, events, next) = asked.read(app, ROWS)?;
        let query = asked.query(&filter);
        let next = next.map(|last| format!("/journal?{query}&before={}", cursor(last)));
        let now = app.now();
        Ok::<_, Problem>(JournalPage {
            frame: Frame::of(app, &caller, "/journal", "Journal")?,
            agent: asked.agent,
            csv: format!("/journal.csv?{query}"),
            kind: asked.kind,
            from: asked.from,
            to: asked.to,
            events: events.into_iter().map(|found| EventRow::of(found, now)).collect(),
            next,
        })
    })
    .await
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || "._-:".contains(*c)).collect()
}
