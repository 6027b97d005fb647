//! A line of a real chip, by the kernel's character device.

use std::os::fd::{AsFd, BorrowedFd};

use estop_config::GpioConfig;
use gpiocdev::Request;
use gpiocdev::line::{Bias, EdgeDetection, EdgeKind, Value};

use super::Line;

/// Edges of one look; more than a button makes, and the rest comes with the next.
const EDGES_MAX: usize = 64;

struct ChipLine {
    request: Request,
    is_debounced: bool,
}

/// Asks the kernel for the line: pulled up, both edges, calm if it can see to that.
pub(super) fn open(config: &GpioConfig) -> anyhow::Result<Box<dyn Line>> {
    // Opening something else could wait, or do something.
    let about = std::fs::metadata(&config.chip)?;
    let is_chip = std::os::unix::fs::FileTypeExt::is_char_device(&about.file_type());
    anyhow::ensure!(is_chip, "is no GPIO chip");
    let request = |debounces: bool| {
        let mut wanted = Request::builder();
        wanted.on_chip(&config.chip).with_consumer("estop").with_line(config.line).as_input();
        wanted.with_bias(Bias::PullUp).with_edge_detection(EdgeDetection::BothEdges);
        if debounces {
            wanted.with_debounce_period(config.debounce);
        }
        wanted.request()
    };
    let calm = if config.debounce.is_zero() { None } else { request(true).ok() };
    let is_debounced = calm.is_some();
    let request = calm.map_or_else(|| request(false), Ok)?;
    Ok(Box::new(ChipLine { request, is_debounced }))
}

impl Line for ChipLine {
    fn fd(&self) -> BorrowedFd<'_> {
        self.request.as_fd()
    }

    fn is_debounced(&self) -> bool {
        self.is_debounced
    }

    fn is_high(&mut self) -> anyhow::Result<bool> {
        Ok(self.request.lone_value()? == Value::Active)
    }

    fn edges(&mut self) -> anyhow::Result<Vec<bool>> {
        let mut edges = Vec::new();
        while edges.len() < EDGES_MAX && self.request.has_edge_event()? {
            let edge = self.request.read_edge_event()?;
            edges.push(edge.kind == EdgeKind::Rising);
        }
        Ok(edges)
    }
}
