//! The journal's events, to search; export and verification are the API's.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use estop_store::EventFilter;
use serde::Deserialize;

use super::csv;
use super::frame::Frame;
use super::shown::EventRow;
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
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "journal.html")]
struct JournalPage {
    frame: Frame,
    agent: String,
    kind: String,
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
}

/// The same as a file.
pub(super) async fn csv(State(app): State<App>, Query(asked): Query<PageQuery>) -> Page {
    let here = Arc::clone(&app);
    app.work(move || {
        let filter = asked.filter(&here)?;
        let now = here.now();
        let events = here.store_here().events(&filter, csv::ROWS_MAX)?;
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
        let filter = asked.filter(app)?;
        let events = app.store_here().events(&filter, ROWS)?;
        let next = events.last().filter(|_| events.len() == ROWS).map(|last| {
            let text = |text: &Option<estop_core::ids::Name>| plain(text.as_deref().unwrap_or_default());
            format!(
                "/journal?agent={}&type={}&before={}",
                text(&filter.agent),
                text(&filter.event_type),
                cursor(last.key)
            )
        });
        let now = app.now();
        Ok::<_, Problem>(JournalPage {
            frame: Frame::of(app, &caller, "/journal", "Journal")?,
            agent: asked.agent,
            csv: format!(
                "/journal.csv?agent={}&type={}",
                plain(filter.agent.as_deref().unwrap_or_default()),
                plain(filter.event_type.as_deref().unwrap_or_default())
            ),
            kind: asked.kind,
            events: events.into_iter().map(|found| EventRow::of(found, now)).collect(),
            next,
        })
    })
    .await
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect()
}
