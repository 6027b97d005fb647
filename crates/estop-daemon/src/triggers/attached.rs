//! A device that may be missing, be pulled out and come back.

use std::time::{Duration, Instant};

/// How often a device that is missing is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Opens the device, or says why not.
pub(super) type Open<T> = Box<dyn FnMut() -> anyhow::Result<Box<T>> + Send>;

/// The device, if it is there.
pub(super) struct Attached<T: ?Sized> {
    open: Open<T>,
    device: Option<Box<T>>,
    again_at: Option<Instant>,
}

impl<T: ?Sized> Attached<T> {
    pub(super) fn new(open: Open<T>) -> Attached<T> {
        Attached { open, device: None, again_at: None }
    }

    pub(super) fn get(&self) -> Option<&T> {
        self.device.as_deref()
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.device.as_deref_mut()
    }

    /// When to try again; `None` if it is there.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again_at.filter(|_| self.device.is_none())
    }

    /// Tries to open what is missing, if it is time. `None` = it is there, or it is too early.
    pub(super) fn attach(&mut self, now: Instant) -> Option<anyhow::Result<()>> {
        if self.device.is_some() || self.again_at.is_some_and(|at| now < at) {
            return None;
        }
        let opened = (self.open)().map(|device| self.device = Some(device));
        self.again_at = opened.is_err().then(|| now + RETRY_DELAY);
        Some(opened)
    }

    /// It is gone.
    pub(super) fn lose(&mut self, now: Instant) {
        self.device = None;
        self.again_at = Some(now + RETRY_DELAY);
    }
}
