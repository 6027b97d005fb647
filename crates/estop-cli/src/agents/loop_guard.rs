//! `estop agents loop-guard NAME`: shows or sets what stops a looping agent (LD-1, LD-2, AL-3).

use std::io::IsTerminal;

use estop_config::printable::escaped;
use http::Method;
use serde_json::{Map, Value};

use super::NameArgs;
use crate::alerts::how_to_add;
use crate::client::{Daemon, path};
use crate::table::cell;

/// Show or set whether a loop stops an agent
///
/// It does not stop the agent: `estop agents deactivate` does.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    agent: NameArgs,
    /// A loop stops the agent
    #[arg(long, conflicts_with = "off")]
    on: bool,
    /// A loop is shown, and stops nothing
    #[arg(long)]
    off: bool,
    /// How many requests are compared, 5 to 100
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// The score that may not be exceeded, 1 to 50
    #[arg(long, value_name = "X", value_parser = number)]
    threshold: Option<f64>,
}

/// JSON has no word for what is not a number or has no end, and would send none at all.
fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 10 or 4.5".to_owned())
}

pub(super) fn main(daemon: &Daemon, args: &Args) -> anyhow::Result<()> {
    let target = path(&["agents", &args.agent.name, "kill-switch"]);
    let change = args.change();
    let is_shown = change.is_empty();
    let switch = if is_shown {
        daemon.get(target)?
    } else {
        daemon.send(Method::PATCH, target, Some(&Value::Object(change)))?
    };
    daemon.say(&switch, |switch| args.text(switch, is_shown))
}

impl Args {
    fn change(&self) -> Map<String, Value> {
        let enabled = if self.on || self.off { Some(self.on) } else { None };
        let keys = [
            ("enabled", enabled.map(Value::from)),
            ("window_size", self.window.map(Value::from)),
            ("threshold", self.threshold.map(Value::from)),
        ];
        keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    fn text(&self, switch: &Value, is_shown: bool) -> String {
        let is_on = switch["enabled"] == true;
        let (verb, on) = (if is_shown { "is" } else { "is now" }, if is_on { "on" } else { "off" });
        let name = escaped(&self.agent.name);
        let (window, threshold) = (cell(&switch["window_size"]), cell(&switch["threshold"]));
        let mut text =
            format!("The loop guard of {name} {verb} {on}: window {window}, threshold {threshold}.");
        if is_on && switch["notification_missing"] == true {
            text += "\nNo alerts are configured: nobody would be notified of a stop. ";
            // A script is not taught; `estop doctor` says the same.
            text += &if std::io::stdout().is_terminal() {
                how_to_add()
            } else {
                "`estop doctor` says how to change that.".to_owned()
            };
        }
        text
    }
}
