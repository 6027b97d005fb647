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

mod chaos;
mod event;
mod expect;
mod line;
mod policy;
mod world;

use std::fmt;

use line::Line;
use world::World;

/// A script that did not go as it says.
pub(crate) struct Failure(String);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

/// Plays a script and compares what came with what it expects.
pub(crate) fn check(name: &str, script: &str) -> Result<(), Failure> {
    play_all(&format!("tests/scenarios/{name}.txt"), script)
}

/// Plays scripts nobody wrote: whatever happens in whatever order, what always holds must hold.
pub(crate) fn check_chaos(seed: u64) -> Result<(), Failure> {
    let script = chaos::script(seed);
    play_all(&format!("seed {seed}"), &script)
        .map_err(|Failure(e)| Failure(format!("{e}\nthe script:\n{script}")))
}

fn play_all(name: &str, script: &str) -> Result<(), Failure> {
    let lines = line::expand(script).map_err(|e| Failure(format!("{name}: {e}")))?;
    let mut world = World::new();
    for Line { number, text } in &lines {
        play(&mut world, text).map_err(|e| {
            Failure(format!("{name}:{number}\n  {text}\n{e}\n  decision: {}\n", world.last_json()))
        })?;
    }
    Ok(())
}

fn play(world: &mut World, line: &str) -> Result<(), String> {
    let (does, expects) = line.split_once("->").map_or((line, None), |(a, b)| (a, Some(b)));
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
