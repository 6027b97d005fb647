//! Alerts: whether anybody is told, and whether that arrives (AL-3).

use serde_json::Value;

use super::{Area, Finding, Installation};
use crate::alerts::{failing, how_to_add};
use crate::client::ClientError;
use crate::table::{cell, each};

const AREA: Area = Area("alerts");

/// What is to be said of a running estop's channels.
pub(super) fn check(place: &Installation, channels: &Result<Value, ClientError>) -> Vec<Finding> {
    let channels = match channels {
        Ok(channels) => channels,
        Err(why) => {
            let what = format!("it does not say who is told: {why}");
            return vec![AREA.wrong(what, "look at its standard error")];
        }
    };
    let mut findings = vec![told(place, channels)];
    findings.extend(failing(channels).into_iter().map(|(name, how)| {
        let again = place.command(&format!("alerts test {name}"));
        AREA.wrong(
            format!("the channel {name} fails: {how}"),
            format!("fix what its receiver says; {again} tries it out"),
        )
    }));
    let error = &channels["store_error"];
    if !error.is_null() {
        findings.push(AREA.wrong(
            format!("alerts cannot be stored: {}", cell(error)),
            "look at the disk of the data directory; until then a restart loses those that wait",
        ));
    }
    findings
}

fn told(place: &Installation, channels: &Value) -> Finding {
    let count = each(&channels["channels"]).len();
    match (count, channels["told_of_stops"] == true) {
        (0, _) => AREA
            .warning("nobody is notified when an agent is stopped: there is no alert channel", how_to_add()),
        (_, false) => AREA.warning(
            "nobody is notified when an agent is stopped: no rule says so",
            format!("{} shows them; a rule needs the type kill_switch", place.command("alerts rules")),
        ),
        (_, true) => AREA.ok("somebody is notified when an agent is stopped"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    #[test]
    fn al_3_missing_channels_and_failing_ones_are_told_with_their_mend() {
        let place = Installation { config_file: None, named_folder: None, config: None, folder: None };
        let look = |channels: Value, told: bool| {
            let answer = json!({"channels": channels, "told_of_stops": told, "store_error": null});
            let found = check(&place, &Ok(answer));
            found
                .into_iter()
                .map(|one| (one.level, one.what, one.fix.unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        let none = look(json!([]), false);
        assert_eq!(none[0].0, Level::Warning);
        assert!(none[0].2.contains("alerts: {channels:"), "{none:?}");
        let working = json!([{"name": "ops", "working": true, "failures": 0, "said": "200"}]);
        assert_eq!(look(working.clone(), true)[0].0, Level::Ok);
        assert!(look(working, false)[0].2.contains("estop alerts rules"));
        let failing = json!([{"name": "ops", "working": false, "failures": 2, "said": "404 no_team"}]);
        let failing = look(failing, true);
        assert_eq!((failing.len(), failing[1].0), (2, Level::Wrong));
        assert!(
            failing[1].1.contains("404 no_team") && failing[1].2.contains("alerts test ops"),
            "{failing:?}"
        );
        assert_eq!(check(&place, &Err(ClientError::Unreachable("gone".to_owned())))[0].level, Level::Wrong);
    }
}
