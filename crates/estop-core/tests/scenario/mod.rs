//! Runs scripts of `tests/scenarios/`: one [`check`] touches the API, the rest is text.
//!
//! ```text
//! # LD-1: …
//! policy  loop=enforce
//! repeat 11
//!   +5s   request {i} "fix the bug"            -> allow
//!   +1s   response {i} "{words}"
//! end
//! +5s     request 12 "fix the bug"             -> refuse loop, retry never
//!                                              -> effect deactivated loop, standing inactive kill_switch loop
//! ```
//!
//! A line is a time (`90s` since the start, or `+5s` after the line before), an event ([`event`]) and what is
//! expected after it ([`expect`]). `{i}` counts the rounds of a `repeat`, `{words}` is another sentence each time.

mod event;
mod expect;
mod line;
mod policy;
mod world;

use std::fmt;
use std::path::PathBuf;

use line::Line;
use world::World;

/// A script that did not go as it says.
pub(crate) struct Failure(String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

/// Where the scripts are.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Plays a script and compares what came with what it expects.
pub(crate) fn check(name: &str) -> Result<(), Failure> {
    let path = folder().join(format!("{name}.txt"));
    let script = std::fs::read_to_string(&path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    let lines = line::expand(&script).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    let mut world = World::new();
    for line in &lines {
        play(&mut world, line).map_err(|e| {
            let Line { number, text, .. } = line;
            Failure(format!("{}:{number}\n  {text}\n{e}\n  decision: {}\n", path.display(), world.last_json()))
        })?;
    }
    Ok(())
}

fn play(world: &mut World, line: &Line) -> Result<(), String> {
    let (does, expects) = line.text.split_once("->").map_or((line.text.as_str(), None), |(a, b)| (a, Some(b)));
    let words = line::words(does)?;
    match words.split_first() {
        None => {}
        Some((first, rest)) if first.text == "policy" => policy::change(&mut world.policy, rest)?,
        Some((first, rest)) if first.text == "wall" => world.set_wall(rest)?,
        Some((first, rest)) => {
            world.set_time(&first.text)?;
            event::play(world, rest)?;
        }
    }
    for expected in line::split_expectations(expects.unwrap_or_default()) {
        expect::check(world, expected)?;
    }
    Ok(())
}
