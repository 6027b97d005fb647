//! Each step of one trace, as the loop guard saw it: `estop eval --steps ID`.

use estop_config::printable::{escaped, named};
use estop_core::loop_detector::LoopFinding;
use estop_core::run::test_command::TestRunners;

use crate::trace::Trace;
use crate::trace_run::Run;

/// Characters of a call or a result that are shown.
const EXCERPT: usize = 70;

/// A line for each step.
pub(super) fn table(trace: &Trace, run: &Run, runners: &TestRunners) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["request", "at", "new", "pace", "to a stop", "step"]);
    for (at, (exchange, seen)) in trace.exchanges(runners).zip(&run.seen).enumerate() {
        let steps = exchange.request.steps.iter().map(|step| {
            format!("{} {} -> {}", named(step.tool), excerpt(step.args), excerpt(step.result))
                .trim_start()
                .to_owned()
        });
        let time = trace.asked_at(at).map_or(String::new(), |ms| format!("{} s", ms / 1_000));
        table.add_row([
            (at + 1).to_string(),
            time,
            number(seen, |stretch| stretch.novelty.map(u16::from)),
            number(seen, |stretch| stretch.pace.map(u16::from)),
            number(seen, |stretch| Some(stretch.percent)),
            steps.collect::<Vec<_>>().join("\n"),
        ]);
    }
    let stopped = run.stopped.as_ref().map_or("It ran through.".to_owned(), |stop| {
        format!("Stopped after {} steps. {}", stop.step, escaped(&stop.reason))
    });
    format!("{table}\n{stopped}")
}

fn number(
    seen: &LoopFinding,
    of: impl Fn(&estop_core::loop_detector::progress::Stretch) -> Option<u16>,
) -> String {
    seen.stretch.as_ref().and_then(of).map_or(String::new(), |number| number.to_string())
}

fn excerpt(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(EXCERPT).collect();
    escaped(&short).to_string()
}
