//! What a backtest found, for machines and in a sentence for people.

use estop_core::ids::Name;
use estop_core::policy::LoopPolicy;
use estop_core::printable::named;
use estop_journal::{LoopOutcome, LoopStop};
use serde::Serialize;
use utoipa::ToSchema;

use crate::output::{moment, tenths};

/// What was found.
pub(crate) struct Effect {
    pub(crate) enabled: bool,
    pub(crate) days: i64,
    pub(crate) records: u64,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
    pub(crate) complete: bool,
    pub(crate) today: Side,
    pub(crate) tried: Side,
}

/// By which values, and what came of it.
pub(crate) struct Side {
    pub(crate) policy: LoopPolicy,
    pub(crate) outcome: LoopOutcome,
}

impl Effect {
    /// In a few sentences.
    pub(crate) fn text(&self) -> String {
        if self.records == 0 && !self.complete {
            return "Nothing was judged in time: the journal answers too slowly at the moment. Try again later."
                .to_owned();
        }
        if self.records == 0 {
            return format!("Nothing of this agent is in the journal of the last {}.", self.period());
        }
        let (tried, today) = (self.tried.outcome.told(), self.today.outcome.told());
        let mut text = if self.tried.policy == self.today.policy {
            format!(
                "With today's {} it would have stopped {today} in the last {}.",
                self.named(&self.today),
                self.period()
            )
        } else {
            let (new, old) = (self.named(&self.tried), self.named(&self.today));
            format!(
                "With {new} it would have stopped {tried} in the last {}; with today's {old}, {today}.",
                self.period()
            )
        };
        let by_rule = match self.tried.outcome.by_rule {
            0 => String::new(),
            1 => " One stop is a plain repetition: no threshold changes that.".to_owned(),
            some => format!(" {some} stops are plain repetitions: no threshold changes that."),
        };
        text.push_str(&by_rule);
        if !self.enabled {
            text.push_str(" As it is set today, loops are only watched.");
        }
        if !self.complete {
            text.push_str(" There is more in the journal than was judged here.");
        }
        text
    }

    /// What the two differ in.
    fn named(&self, side: &Side) -> String {
        let (tried, today) = (&self.tried.policy, &self.today.policy);
        let mut parts = Vec::new();
        let exempt = self.exempt_now();
        if let Some(tool) = exempt.filter(|_| side.policy.exempt_tools.len() > today.exempt_tools.len()) {
            parts.push(format!("{} muted", named(tool)));
        }
        if tried.window_size != today.window_size {
            parts.push(format!("window {}", side.policy.window_size));
        }
        if exempt.is_none() || threshold(tried) != threshold(today) {
            parts.push(threshold(&side.policy));
        }
        if parts.is_empty() { "rules".to_owned() } else { parts.join(" and ") }
    }

    fn exempt_now(&self) -> Option<&Name> {
        let (tried, today) = (&self.tried.policy.exempt_tools, &self.today.policy.exempt_tools);
        tried.last().filter(|_| tried.len() > today.len())
    }

    fn period(&self) -> String {
        if self.days == 1 { "day".to_owned() } else { format!("{} days", self.days) }
    }
}

/// `8.0`
pub(crate) fn threshold(policy: &LoopPolicy) -> String {
    format!("{}.{}", policy.threshold_tenths / 10, policy.threshold_tenths % 10)
}

/// A count of stops as people say it.
trait Told {
    fn told(&self) -> String;
}

impl Told for LoopOutcome {
    fn told(&self) -> String {
        let runs = match self.runs {
            0 => return "nothing".to_owned(),
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        if self.stops > self.runs { format!("{runs} ({} stops)", self.stops) } else { runs }
    }
}

/// What another kill switch would have done to the recorded traffic.
#[derive(Serialize, ToSchema)]
#[schema(as = Backtest)]
pub(crate) struct EffectOut {
    /// With the values that were asked for.
    tried: SideOut,
    /// With those in force.
    today: SideOut,
    /// A loop stops the agent as it is set today; otherwise loops are only watched.
    enabled: bool,
    /// How many days back stops were counted.
    days: i64,
    /// Records that were judged, those included that only fill the windows.
    records: u64,
    /// When the first of them was written; null = there was none.
    from: Option<String>,
    /// And the last.
    to: Option<String>,
    /// All of these days was judged. Otherwise there is more than may be read at once.
    complete: bool,
    /// In a few sentences.
    text: String,
}

/// One pair of values.
#[derive(Serialize, ToSchema)]
#[schema(as = BacktestSide)]
struct SideOut {
    window: u8,
    threshold: f64,
    /// Different runs and conversations that would have been stopped. Each is judged for itself, as if a person had let
    /// the agent work again at once.
    runs: u64,
    /// Stops; a run that is let go on can be stopped again.
    stops: u64,
    /// Of the stops, those by a rule of repetition: no threshold changes them.
    by_rule: u64,
    /// The newest stops, newest first, at most 20.
    newest: Vec<StopOut>,
}

/// A stop.
#[derive(Serialize, ToSchema)]
#[schema(as = BacktestStop)]
struct StopOut {
    /// The record of the journal.
    seq: u64,
    at: String,
    /// The run; null = a conversation without a name.
    run: Option<String>,
    score: f64,
    /// What the score that does not decide says: the one of `loop_score: literal`, or of `novelty`.
    other_score: Option<f64>,
    /// In a sentence.
    reason: String,
}

impl From<&Effect> for EffectOut {
    fn from(effect: &Effect) -> EffectOut {
        EffectOut {
            tried: SideOut::from(&effect.tried),
            today: SideOut::from(&effect.today),
            enabled: effect.enabled,
            days: effect.days,
            records: effect.records,
            from: effect.from.map(moment),
            to: effect.to.map(moment),
            complete: effect.complete,
            text: effect.text(),
        }
    }
}

impl From<&Side> for SideOut {
    fn from(side: &Side) -> SideOut {
        let stop = |stop: &LoopStop| StopOut {
            seq: stop.seq,
            at: moment(stop.wall),
            run: stop.run.as_deref().map(str::to_owned),
            score: tenths(stop.finding.score),
            other_score: stop.finding.other.map(|other| tenths(other.score)),
            reason: stop.finding.to_string(),
        };
        SideOut {
            window: side.policy.window_size,
            threshold: tenths(side.policy.threshold_tenths.into()),
            runs: side.outcome.runs,
            stops: side.outcome.stops,
            by_rule: side.outcome.by_rule,
            newest: side.outcome.newest.iter().rev().map(stop).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tw_8_a_slow_journal_is_not_called_an_empty_one() {
        let side = || Side { policy: LoopPolicy::default(), outcome: LoopOutcome::default() };
        let (today, tried) = (side(), side());
        let none = Effect {
            enabled: true,
            days: 7,
            records: 0,
            from: None,
            to: None,
            complete: false,
            today,
            tried,
        };
        assert!(none.text().starts_with("Nothing was judged in time"), "{}", none.text());
        let empty = Effect { complete: true, ..none };
        assert!(empty.text().starts_with("Nothing of this agent is in the journal"), "{}", empty.text());
    }
}
