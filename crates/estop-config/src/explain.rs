//! From the parser's errors to sentences for people.

use estop_core::policy_file::{LimitsIn, PolicyError, PolicyIn, PolicyProblem};
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::fault::ValueError;
use super::known_keys::keys_of;
use super::origin::SourceText;
use super::overrides::Override;
use super::problem::{Problem, Spot, printable, printable_sentence};
use super::redact;
use super::suggest::closest;
use super::tree::{NotYaml, Step, ValueSource, path_text};
use super::typed::{TypeMismatch, Why};
use super::zones;

/// What is no YAML.
pub(super) fn not_yaml(refused: &NotYaml, text: &str, name: &str) -> Problem {
    let NotYaml { error, path } = refused;
    let spot = error.location().map(|location| Spot::of(text, location));
    let help = is_bare_ipv6(path, spot.as_ref(), text)
        .then(|| "An IPv6 address needs quotes: \"[::1]:4100\"".to_owned());
    Problem::at(name, spot, yaml_sentence(original(error), path)).with_help(help)
}

/// What a type refused, in a file or in the variables that were laid over it.
pub(super) fn refused(refusal: &TypeMismatch, texts: &[SourceText<'_>], overrides: &[Override]) -> Problem {
    let found = match refusal.at.as_deref() {
        Some((_, Some(found))) => Found::Text(found.clone()),
        Some((_, None)) => Found::Nothing,
        None => Found::Unknown,
    };
    let problem = match refusal.at.as_deref().map(|(place, _)| *place) {
        Some(ValueSource::Variable(number) | ValueSource::SectionFor(number))
            if let Some(variable) = overrides.get(number) =>
        {
            let (message, help) = sentence(refusal, &found, &variable.keys);
            variable.problem(message).with_help(help)
        }
        place => {
            let (message, help) = sentence(refusal, &found, &[]);
            place.unwrap_or(ValueSource::SectionFor(0)).problem(texts, message).with_help(help)
        }
    };
    if hides_text(refusal) { problem.without_text() } else { problem }
}

/// Whether the text at fault may be a secret whatever it looks like: a file that is no configuration, or a header.
fn hides_text(refusal: &TypeMismatch) -> bool {
    is_whole_file(refusal) || is_header(&refusal.path)
}

fn is_whole_file(refusal: &TypeMismatch) -> bool {
    let is_of_its_form = matches!(refusal.why, Why::UnknownKey { .. } | Why::MissingKey(_));
    refusal.path.is_empty() && !is_of_its_form
}

/// To YAML, the brackets of `data: [::1]:4100` are a list, and what follows is a mistake.
fn is_bare_ipv6(path: &[Step], spot: Option<&Spot>, text: &str) -> bool {
    let line = spot.and_then(|spot| text.lines().nth(spot.line.checked_sub(1)?)).unwrap_or_default();
    path_text(path).starts_with("listen") && line.contains("]:")
}

/// What stands where something else should be.
enum Found {
    Text(String),
    Nothing,
    /// The place cannot be found.
    Unknown,
}

/// What the policy's own checks refused.
pub(super) fn policy_fault(error: &PolicyError) -> ValueError {
    let help = match &error.problem {
        PolicyProblem::UnknownZone(zone) => Some(match zones::suggest(zone) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "Time zones have IANA names, such as `Europe/Berlin` or `UTC`.".to_owned(),
        }),
        PolicyProblem::LoopSwitch { .. }
        | PolicyProblem::WatchdogSwitch { .. }
        | PolicyProblem::NoName
        | PolicyProblem::ReservedName
        | PolicyProblem::PresetAtTop
        | PolicyProblem::BadModel { .. }
        | PolicyProblem::TooManyModels { .. }
        | PolicyProblem::TooManyTools { .. }
        | PolicyProblem::BadTool { .. }
        | PolicyProblem::BadPath { .. }
        | PolicyProblem::TooManyPaths { .. }
        | PolicyProblem::TestRunners(_)
        | PolicyProblem::SuspendsAtOnce { .. }
        | PolicyProblem::HoursIncomplete { .. }
        | PolicyProblem::HoursEmpty { .. }
        | PolicyProblem::Above { .. }
        | PolicyProblem::NotBelow { .. } => None,
    };
    let keys: Vec<&str> = error.keys.iter().map(AsRef::as_ref).collect();
    ValueError::new(&keys, error.problem.to_string()).with_help(help)
}

/// The error behind aliases and snippets.
fn original(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// Message and help. `variable` are the keys that the variable at fault sets.
fn sentence(refusal: &TypeMismatch, found: &Found, variable: &[String]) -> (String, Option<String>) {
    let path = refusal.path.as_slice();
    let must_be = |expected: &str| {
        let subject = subject(path);
        match found {
            Found::Text(_) if is_whole_file(refusal) => format!("{subject} must be {expected}"),
            Found::Text(found) if is_secret(path) && !redact::is_harmless(found) => {
                format!("{subject} must be {expected}")
            }
            Found::Text(found) => format!("{subject} must be {expected}; found {}", redact::line(found)),
            Found::Nothing if matches!(path.last(), Some(Step::Key(_))) => {
                format!("{subject} has no value; give one or leave the key out")
            }
            Found::Nothing => format!("{subject} must be {expected}; found nothing"),
            Found::Unknown => format!("{subject} must be {expected}"),
        }
    };
    match &refusal.why {
        Why::UnknownKey { key, known } => unknown_key(key, known, path),
        Why::UnknownWord { word, known } => {
            let help = closest(word, known.iter().copied()).map(|meant| format!("did you mean `{meant}`?"));
            (must_be(&either(known)), help)
        }
        Why::MustBe(expected) => (must_be(expected), None),
        Why::MissingKey(key) => (format!("key `{key}` is missing{}", inside(path)), None),
        Why::NoSection => {
            let (key, section) = variable.split_last().map_or(("", &[][..]), |(key, keys)| (key, keys));
            (format!("unknown key `{key}`: {} is a single value", section.join(".")), None)
        }
        Why::Other(message) => (printable_sentence(message), None),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is the library's, and grows")]
fn yaml_sentence(error: &Error, path: &[Step]) -> String {
    match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key =
                key.as_deref().map_or_else(|| "a key".to_owned(), |key| format!("key `{}`", printable(key)));
            format!("{key} is given twice{}", inside(path))
        }
        Error::SerdeInvalidType { .. }
        | Error::Unexpected { .. }
        | Error::NullIntoString { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. } => {
            format!("{} must be a single value", subject(path))
        }
        Error::MultipleDocuments { .. } => "only one YAML document may be in the file".to_owned(),
        Error::UnknownAnchor { .. } => "this alias (`*name`) has no anchor (`&name`) before it".to_owned(),
        Error::UnsupportedTag { tag, .. } => format!("YAML tag `{}` is not supported", printable(tag)),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "too deeply nested, or too large once its aliases are filled in".to_owned()
        }
        Error::ExternalMessage { msg, .. } => format!("not valid YAML: {}", printable_sentence(msg)),
        Error::Message { msg, .. } => printable_sentence(msg),
        other => {
            format!("not valid here: {}", printable_sentence(&UserMessageFormatter.format_message(other)))
        }
    }
}

fn unknown_key(key: &str, known: &[&str], place: &[Step]) -> (String, Option<String>) {
    let message = format!("unknown key `{}`{}", printable(key), inside(place));
    let known_keys = known.join(", ");
    let help = if known.contains(&"policy") && keys_of::<PolicyIn>().contains(&key) {
        format!("`{key}` goes below `policy`. Known keys here: {known_keys}")
    } else if path_text(place) == "limits" && keys_of::<LimitsIn>().contains(&key) {
        format!("`{key}` is a limit of a run and goes below `policy.limits`. Known keys here: {known_keys}")
    } else if is_key_itself(key, known) {
        format!(
            "A key does not stand in the configuration: name its variable with `api_key_env`, or its file with `api_key_file`. Known keys: {known_keys}"
        )
    } else if let Some(variable) = variable_of(key, known) {
        format!(
            "A secret does not stand in the configuration: name the variable that holds it with `{variable}`. Known keys: {known_keys}"
        )
    } else if let Some(meant) = closest(key, known.iter().copied()) {
        format!("did you mean `{meant}`? Known keys: {known_keys}")
    } else {
        format!("Known keys: {known_keys}")
    };
    (message, Some(help))
}

/// Keys of providers are easily written into the file.
fn is_key_itself(key: &str, known: &[&str]) -> bool {
    known.contains(&"api_key_env") && ["key", "api_key", "apikey", "api-key", "token"].contains(&key)
}

/// The key of a channel that names the variable of a secret that was written into the file.
fn variable_of<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let key = match key {
        "key" | "routing_key" | "api_key" => "token",
        other => other,
    };
    known.iter().copied().find(|known| known.strip_suffix("_env") == Some(key))
}

/// A header has any name, and its value is a secret.
fn is_header(path: &[Step]) -> bool {
    path.iter().any(|step| matches!(step, Step::Key(key) if key == "headers_env"))
}

fn is_secret(path: &[Step]) -> bool {
    is_header(path) || matches!(path.last(), Some(Step::Key(key)) if redact::is_secret_key(key))
}

fn inside(path: &[Step]) -> String {
    match path_text(path) {
        path if path.is_empty() => String::new(),
        path => format!(" in {path}"),
    }
}

/// What a sentence is about: the last key, with the number of the item in it.
fn subject(path: &[Step]) -> String {
    if let [parents @ .., Step::Unknown] = path {
        return format!("every key{}", inside(parents));
    }
    match path.iter().rposition(|step| matches!(step, Step::Key(_))) {
        Some(last_key) => path_text(&path[last_key..]),
        None => "the file".to_owned(),
    }
}

/// `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}
