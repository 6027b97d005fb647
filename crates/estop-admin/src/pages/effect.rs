//! The effect of a kill switch that is not saved yet: what recorded traffic says about it.
//!
//! The values stand in the page's own address, so that it works without a script; with one, only this part of the page is
//! taken out of the answer.

use serde::Deserialize;

use super::shown::when;
use crate::backtest::{Effect, Tried, effect_of};
use crate::input::Whole;
use crate::output::moment;
use crate::problem::Problem;
use crate::state::App;

/// Stops in the list.
const ROWS: usize = 10;

/// As the form sends it.
#[derive(Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    pub(super) window_size: String,
    #[serde(default)]
    pub(super) threshold: String,
    /// A tool that would be muted.
    #[serde(default)]
    pub(super) tool: String,
}

/// As people see it.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Where the judged traffic begins.
    pub(super) judged: String,
    pub(super) stops: Vec<StopRow>,
}

pub(super) struct StopRow {
    pub(super) at: String,
    pub(super) when: String,
    pub(super) run: String,
    pub(super) reason: String,
}

/// `None` if nobody asked. What cannot be told is said in the same place.
pub(super) async fn shown(app: &App, agent: &str, asked: &PageQuery) -> Option<Shown> {
    if [&asked.window_size, &asked.threshold, &asked.tool].into_iter().all(String::is_empty) {
        return None;
    }
    let found = match asked.read() {
        Ok(tried) => effect_of(app, agent.into(), tried).await,
        Err(problem) => Err(problem),
    };
    Some(match found {
        Ok(effect) => Shown::of(&effect, app.now()),
        Err(problem) => Shown { text: problem.detail().to_owned(), ..Shown::default() },
    })
}

impl PageQuery {
    fn read(&self) -> Result<Tried, Problem> {
        fn number<T: std::str::FromStr>(field: &str, text: &str) -> Result<Option<T>, Problem> {
            let text = text.trim();
            let read = || text.parse().map(Some).map_err(|_| Problem::field(field, "must be a number"));
            if text.is_empty() { Ok(None) } else { read() }
        }
        Ok(Tried {
            window: number("Window", &self.window_size)?.map(Whole),
            threshold: number("Threshold", &self.threshold)?,
            exempt_tool: Some(self.tool.clone()).filter(|tool| !tool.is_empty()),
            days: None,
        })
    }
}

impl Shown {
    fn of(effect: &Effect, now: i64) -> Shown {
        let stops = effect.tried.outcome.newest.iter().rev().take(ROWS).map(|stop| StopRow {
            at: moment(stop.wall),
            when: when(stop.wall, now),
            run: stop.run.as_deref().unwrap_or("without a name").to_owned(),
            reason: stop.finding.to_string(),
        });
        let judged = effect.from.map(|from| {
            format!(
                "{} records were judged, the first of them {}. A run that was stopped then is judged up to its stop.",
                effect.records,
                when(from, now)
            )
        });
        Shown { text: effect.text(), judged: judged.unwrap_or_default(), stops: stops.collect() }
    }
}
