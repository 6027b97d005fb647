//! `policy preset=strict loop=shadow loops.window_size=5 budget.usd_per_day=$5 open="mon tue 22:00-06:00 +1h"`
//!
//! A guard's name alone sets its mode; a dotted path sets that field of [`Policy`]. A wrong path is an error.

use estop_core::ids::Name;
use estop_core::policy::{AllowedHours, Modes, Policy, Preset, WatchdogScope};
use estop_core::time::Zone;
use serde_json::{Value, json};

use super::line::{Word, duration_ms};

/// Changes a policy by the words of a line.
pub(super) fn change(policy: &mut Policy, words: &[Word]) -> Result<(), String> {
    for word in words {
        let (key, value) =
            word.text.split_once('=').ok_or_else(|| format!("policy: `{}` is no key=value", word.text))?;
        change_one(policy, key, value).map_err(|e| format!("policy: {key}={value}: {e}"))?;
    }
    Ok(())
}

fn change_one(policy: &mut Policy, key: &str, value: &str) -> Result<(), String> {
    match key {
        "preset" => {
            let preset: Preset = serde_json::from_value(json!(value)).map_err(|e| e.to_string())?;
            policy.preset = preset;
            policy.modes = Modes::of(preset);
            policy.watchdog.scope = match preset {
                Preset::Watch => WatchdogScope::Agent,
                Preset::Strict => WatchdogScope::System,
            };
            Ok(())
        }
        "open" => {
            policy.hours = Some(open(value)?);
            Ok(())
        }
        "models.allow" => {
            policy.models.allow = names(value);
            Ok(())
        }
        "models.deny" => {
            policy.models.deny = names(value);
            Ok(())
        }
        "all" => {
            let guards = ["hours", "rate", "budget", "loop", "churn", "chanting", "breaker"];
            let more = ["breaker_unattended", "gate", "health", "watchdog", "models"];
            guards.iter().chain(&more).try_for_each(|guard| set(policy, &["modes", guard], json!(value)))
        }
        path if path.contains('.') => {
            let keys: Vec<&str> = path.split('.').collect();
            let value = if path.ends_with("zone") { json!(zone(value)?) } else { read(value)? };
            set(policy, &keys, value)
        }
        guard => set(policy, &["modes", guard], json!(value)),
    }
}

/// `$5` in nano-dollars, `[a,b]` a list of words, JSON as it is, anything else a word.
fn read(text: &str) -> Result<Value, String> {
    if let Some(dollars) = text.strip_prefix('$') {
        return Ok(json!(nano_usd(dollars)?));
    }
    if let Some(names) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return Ok(json!(names.split(',').collect::<Vec<_>>()));
    }
    Ok(serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
}

/// `a,b`
fn names(text: &str) -> Vec<Name> {
    text.split(',').filter(|name| !name.is_empty()).map(Name::from).collect()
}

/// `12.34` in nano-dollars.
pub(super) fn nano_usd(dollars: &str) -> Result<u64, String> {
    if dollars == "max" {
        return Ok(u64::MAX);
    }
    let (whole, part) = dollars.split_once('.').unwrap_or((dollars, ""));
    let digits = format!("{whole}{part:0<9}");
    digits.parse().map_err(|_| format!("`{dollars}` is no amount of dollars"))
}

fn set(policy: &mut Policy, path: &[&str], value: Value) -> Result<(), String> {
    let mut whole = serde_json::to_value(&*policy).map_err(|e| e.to_string())?;
    let mut at = &mut whole;
    let (last, sections) = path.split_last().ok_or("which key?")?;
    for key in sections {
        at = at.get_mut(key).ok_or_else(|| format!("there is no {key}"))?;
    }
    // What has its default may be left out; a wrong key is refused where the policy is read again.
    at[*last] = value;
    *policy = serde_json::from_value(whole).map_err(|e| e.to_string())?;
    Ok(())
}

/// `mon tue 22:00-06:00 +1h`
fn open(text: &str) -> Result<AllowedHours, String> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let mut hours = AllowedHours { days: 0, from_minute: 0, to_minute: 0, zone: Zone::default() };
    for word in text.split_whitespace() {
        if let Some(day) = DAYS.iter().position(|day| *day == word) {
            hours.days |= 1 << day;
        } else if word.starts_with(['+', '-', '{']) {
            hours.zone = zone(word)?;
        } else {
            let (from, to) = word.split_once('-').ok_or_else(|| format!("`{word}` is no span"))?;
            (hours.from_minute, hours.to_minute) = (minute(from)?, minute(to)?);
        }
    }
    Ok(hours)
}

fn minute(text: &str) -> Result<u16, String> {
    let (hour, minute) = text.split_once(':').ok_or_else(|| format!("`{text}` is no time of day"))?;
    let number = |text: &str| text.parse::<u16>().map_err(|e| e.to_string());
    Ok(number(hour)? * 60 + number(minute)?)
}

/// `+1h`, `-5h30m`, or `+1h/1711846800000/+2h` for an offset that changes at a wall-clock moment.
fn zone(text: &str) -> Result<Zone, String> {
    let offset = |text: &str| -> Result<i32, String> {
        let (sign, size) = text.split_at(1);
        let seconds = (duration_ms(size)? / 1000) as i32;
        Ok(if sign == "-" { -seconds } else { seconds })
    };
    let parts: Vec<&str> = text.split('/').collect();
    let mut zone = Zone { name: text.into(), offset_s: offset(parts[0])?, changes: Vec::new() };
    if let [_, at, then] = parts[..] {
        zone.changes.push((at.parse().map_err(|_| format!("`{at}` is no moment"))?, offset(then)?));
    }
    Ok(zone)
}
