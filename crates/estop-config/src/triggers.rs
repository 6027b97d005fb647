//! `triggers:`, what presses the red button besides people (KS-5, KS-7).

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use estop_core::policy_file::Number;
use serde::Deserialize;
use serde::de::Deserializer;

use super::env::Env;
use super::fault::ValueError;
use super::paths;
use super::values::{FilePath, Reading, Seconds, from_text, given};

/// Whether this estop was built with what a GPIO line needs.
const HAS_GPIO: bool = cfg!(feature = "gpio");
/// Whether this estop was built with what a USB button needs.
const HAS_HID: bool = cfg!(feature = "hid");

/// What presses the button. Signals and the latch file always do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggersConfig {
    /// The trigger file.
    pub file: FileSetting,
    /// A button on a GPIO line.
    pub gpio: Option<GpioConfig>,
    /// A button that is an input device.
    pub button: Option<ButtonConfig>,
    /// How long nobody may be silent; `None` = for ever.
    pub heartbeat: Option<Duration>,
}

/// Where the trigger file is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FileSetting {
    /// `KILL` in the data directory.
    #[default]
    InDataDir,
    /// Here.
    At(PathBuf),
    /// There is none.
    Off,
}

impl FileSetting {
    /// The file, if there is one.
    pub fn path(&self, data_dir: &Path) -> Option<PathBuf> {
        match self {
            FileSetting::InDataDir => Some(data_dir.join("KILL")),
            FileSetting::At(path) => Some(path.clone()),
            FileSetting::Off => None,
        }
    }
}

/// A button on a GPIO line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpioConfig {
    /// The chip's device.
    pub chip: PathBuf,
    /// The line's number on it.
    pub line: u32,
    /// The button takes the line off the ground; so does a cut wire.
    pub normally_closed: bool,
    /// How long the line must be calm.
    pub debounce: Duration,
    /// What a lost line means.
    pub on_lost: OnLost,
}

/// A button that is an input device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ButtonConfig {
    /// Which.
    pub device: WhichDevice,
    /// The key that presses.
    pub key: Key,
    /// Its events come here alone.
    pub grab: bool,
    /// What a lost device means.
    pub on_lost: OnLost,
}

/// How an input device is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichDevice {
    /// By its path.
    At(PathBuf),
    /// By its name; the first of several.
    Named(String),
}

/// What losing a device means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLost {
    /// People are told.
    #[default]
    Alarm,
    /// The button is pressed.
    Kill,
}

/// A key of an input device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Whichever.
    Any,
    /// The one with this number.
    Code(u16),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Any => f.write_str("any key"),
            Key::Code(code) => f.write_str(&key_name(*code)),
        }
    }
}

/// The number of a key by its name, such as KEY_STOP.
#[cfg(feature = "hid")]
fn key_code(name: &str) -> Option<u16> {
    name.parse::<evdev::KeyCode>().ok().map(|key| key.0)
}

/// A key as people know it.
#[cfg(feature = "hid")]
fn key_name(code: u16) -> String {
    format!("{:?}", evdev::KeyCode(code))
}

/// Without `hid` no names are known.
#[cfg(not(feature = "hid"))]
fn key_name(code: u16) -> String {
    format!("key {code}")
}

/// Without `hid` no names are known.
#[cfg(not(feature = "hid"))]
fn key_code(_name: &str) -> Option<u16> {
    None
}

/// The largest number the kernel has for a key.
const KEY_MAX: u16 = 0x2ff;

impl Reading for Key {
    fn read(text: &str) -> Result<Key, &'static str> {
        if text == "any" {
            return Ok(Key::Any);
        }
        let number = text.parse::<u16>().ok().filter(|code| *code <= KEY_MAX);
        number.or_else(|| key_code(text)).map(Key::Code).ok_or(
            "a key's name such as KEY_STOP or BTN_TRIGGER, its number from 0 to 767, or any (`evtest` shows both)",
        )
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Key, D::Error> {
        from_text(d)
    }
}

/// `triggers:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TriggersIn {
    /// A path, or `off`.
    #[serde(deserialize_with = "given")]
    file: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    gpio: Option<GpioIn>,
    #[serde(deserialize_with = "given")]
    button: Option<ButtonIn>,
    #[serde(deserialize_with = "given")]
    heartbeat: Option<HeartbeatIn>,
}

/// `triggers.gpio:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GpioIn {
    #[serde(deserialize_with = "given")]
    chip: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    line: Option<LineNumber>,
    #[serde(deserialize_with = "given")]
    normally_closed: Option<bool>,
    #[serde(deserialize_with = "given")]
    debounce_ms: Option<DebounceMs>,
    #[serde(deserialize_with = "given")]
    on_lost: Option<OnLost>,
}

/// Lines of a chip; no chip has more.
type LineNumber = Number<u32, 0, 0, 65_535>;
/// A contact is calm within some ten milliseconds; above a second it is a typing error.
type DebounceMs = Number<u64, 0, 0, 1_000>;

/// `triggers.button:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ButtonIn {
    #[serde(deserialize_with = "given")]
    device: Option<FilePath>,
    #[serde(deserialize_with = "given")]
    name: Option<String>,
    #[serde(deserialize_with = "given")]
    key: Option<Key>,
    #[serde(deserialize_with = "given")]
    grab: Option<bool>,
    #[serde(deserialize_with = "given")]
    on_lost: Option<OnLost>,
}

/// `triggers.heartbeat:`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HeartbeatIn {
    #[serde(deserialize_with = "given")]
    within_s: Option<Seconds>,
}

/// The triggers, if they fit together.
pub(super) fn triggers(given: &TriggersIn, env: &Env) -> Result<TriggersConfig, ValueError> {
    Ok(TriggersConfig {
        file: match &given.file {
            None => FileSetting::InDataDir,
            Some(path) if path.0 == "off" => FileSetting::Off,
            Some(path) => FileSetting::At(file(path, env)?),
        },
        gpio: given.gpio.as_ref().map(|given| gpio(given, env)).transpose()?,
        button: given.button.as_ref().map(|given| button(given, env)).transpose()?,
        heartbeat: given.heartbeat.as_ref().map(heartbeat).transpose()?,
    })
}

fn file(path: &FilePath, env: &Env) -> Result<PathBuf, ValueError> {
    let keys = ["triggers", "file"];
    let path = paths::expanded(path, &keys, env)?;
    if path.file_name().is_none() || path.is_dir() {
        let help = "Name a file, such as /run/estop/KILL; its folder must exist. `off` means none.";
        let message = format!("triggers.file ({}) is a folder", path.display());
        return Err(ValueError::new(&keys, message).with_help(help.to_owned()));
    }
    Ok(path)
}

fn gpio(given: &GpioIn, env: &Env) -> Result<GpioConfig, ValueError> {
    check_built(HAS_GPIO, "gpio", "gpio")?;
    let chip = match &given.chip {
        Some(chip) => paths::expanded(chip, &["triggers", "gpio", "chip"], env)?,
        None => PathBuf::from("/dev/gpiochip0"),
    };
    Ok(GpioConfig {
        chip,
        line: given.line.map_or(17, Number::get),
        normally_closed: given.normally_closed.unwrap_or(false),
        debounce: Duration::from_millis(given.debounce_ms.map_or(100, Number::get)),
        on_lost: given.on_lost.unwrap_or_default(),
    })
}

fn button(given: &ButtonIn, env: &Env) -> Result<ButtonConfig, ValueError> {
    check_built(HAS_HID, "button", "hid")?;
    let keys = ["triggers", "button"];
    let device = match (&given.device, &given.name) {
        (Some(path), None) => WhichDevice::At(paths::expanded(path, &["triggers", "button", "device"], env)?),
        (None, Some(name)) if !name.is_empty() => WhichDevice::Named(name.clone()),
        (None, _) | (Some(_), Some(_)) => {
            let help = "Set `device: /dev/input/by-id/…`, or `name: …` as `evtest` shows it.";
            let message = "triggers.button needs either `device` or `name`";
            return Err(ValueError::new(&keys, message).with_help(help.to_owned()));
        }
    };
    let Some(key) = given.key else {
        let help = "Set `key: KEY_STOP` or whichever key it sends (`evtest` shows it), or `key: any`.";
        return Err(ValueError::new(&keys, "triggers.button needs `key`").with_help(help.to_owned()));
    };
    let (grab, on_lost) = (given.grab.unwrap_or(true), given.on_lost.unwrap_or_default());
    Ok(ButtonConfig { device, key, grab, on_lost })
}

fn heartbeat(given: &HeartbeatIn) -> Result<Duration, ValueError> {
    let within = given.within_s.ok_or_else(|| {
        let help = "Set `within_s: 60` and POST /api/emergency/heartbeat at least twice in that time.";
        let message = "triggers.heartbeat needs `within_s`";
        ValueError::new(&["triggers", "heartbeat"], message).with_help(help.to_owned())
    })?;
    Ok(Duration::from_millis(within.get()))
}

/// A trigger that is configured and cannot work would be a false sense of safety.
fn check_built(is_built: bool, key: &str, feature: &str) -> Result<(), ValueError> {
    if is_built {
        return Ok(());
    }
    let help = format!("Build it with `--features {feature}`, or remove triggers.{key}.");
    let message = format!("triggers.{key}: this estop was built without `{feature}`");
    Err(ValueError::new(&["triggers", key], message).with_help(help))
}

#[cfg(all(test, feature = "hid"))]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names_and_numbers() {
        assert_eq!((key_code("KEY_STOP"), key_code("BTN_TRIGGER")), (Some(128), Some(0x120)));
        assert_eq!((key_code("STOP"), key_name(128).as_str()), (None, "KEY_STOP"));
    }
}
