//! What is on its way to one side, in order: a queue, and the thread that writes it.
//!
//! Whoever passes messages on waits while the other side does not read; whoever tells of a stop never waits.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use estop_wire::mcp::{Id, MESSAGE_BYTES_MAX};

/// Bytes that may wait for a reader before the other side is not read any more. One message may be larger.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Bytes of messages with calls that may be here, decided about or not; then the client is not read any more. Chosen: two of
/// the largest there are. One alone always fits.
const CALL_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// What is on its way.
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    bell: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Item>,
    bytes: usize,
    /// Bytes of messages that somebody decides about.
    undecided: usize,
    /// No more will come: closed once all is written.
    is_closed: bool,
    /// The other side is gone, or everything is written: what comes goes nowhere.
    is_over: bool,
}

struct Item {
    bytes: Vec<u8>,
    /// The calls in it.
    calls: Vec<Id>,
}

impl Outbox {
    /// Starts the thread; `on_gone` is called if the other side does not take what is written.
    pub(super) fn start(
        name: &str,
        mut to: impl Write + Send + 'static,
        on_gone: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<Arc<Outbox>> {
        let outbox = Arc::new(Outbox { queue: Mutex::default(), bell: Condvar::new() });
        let work = Arc::clone(&outbox);
        let write = move || {
            while let Some(bytes) = work.next() {
                if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
                    work.over();
                    return on_gone();
                }
            }
            // Closes it, before anybody hears that it is over.
            drop(to);
            work.over();
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(write).context("cannot start a thread")?;
        Ok(outbox)
    }

    /// Adds a message; waits while too much is on its way.
    pub(super) fn pass(&self, bytes: Vec<u8>) {
        let is_full = |queue: &mut Queue| queue.bytes > WAITING_BYTES_MAX && !queue.is_over;
        let woken = self.bell.wait_while(self.queue(), is_full);
        self.add(woken.unwrap_or_else(PoisonError::into_inner), Item { bytes, calls: Vec::new() });
    }

    /// Makes room for a message with calls in it, which somebody decides about; waits while too much is here. What has room
    /// is given to [`Outbox::call`], or the room back to [`Outbox::drop_room`].
    pub(super) fn room(&self, bytes: usize) {
        let is_full = |queue: &mut Queue| {
            let held = queue.undecided + queue.bytes;
            held > 0 && held + bytes > CALL_BYTES_MAX && !queue.is_over
        };
        let woken = self.bell.wait_while(self.queue(), is_full);
        woken.unwrap_or_else(PoisonError::into_inner).undecided += bytes;
    }

    /// A message that had room goes nowhere.
    pub(super) fn drop_room(&self, bytes: usize) {
        self.queue().undecided -= bytes;
        self.bell.notify_all();
    }

    /// Adds a message with calls in it, at once: it had room before.
    pub(super) fn call(&self, bytes: Vec<u8>, calls: Vec<Id>) {
        let mut queue = self.queue();
        queue.undecided -= bytes.len();
        self.add(queue, Item { bytes, calls });
    }

    /// Adds a line of estop's own, at once.
    pub(super) fn say(&self, line: &str) {
        let bytes = format!("{line}\n").into_bytes();
        self.add(self.queue(), Item { bytes, calls: Vec::new() });
    }

    fn add(&self, mut queue: MutexGuard<'_, Queue>, item: Item) {
        if queue.is_over || queue.is_closed {
            drop(queue);
            return self.bell.notify_all();
        }
        queue.bytes += item.bytes.len();
        queue.waiting.push_back(item);
        drop(queue);
        self.bell.notify_all();
    }

    /// Takes back a call that was not written so far, with the message it is in.
    pub(super) fn take_back(&self, call: &Id) -> bool {
        let mut queue = self.queue();
        let Some(at) = queue.waiting.iter().position(|item| item.calls.contains(call)) else { return false };
        // One that is in a batch takes the batch with it: its calls are stopped together.
        if let Some(item) = queue.waiting.remove(at) {
            queue.bytes -= item.bytes.len();
        }
        drop(queue);
        self.bell.notify_all();
        true
    }

    /// No more will come; closes it once all is written. Waits for that no longer than `within`.
    pub(super) fn close(&self, within: Duration) {
        let mut queue = self.queue();
        queue.is_closed = true;
        self.bell.notify_all();
        // What could not be written in time is not written.
        drop(self.bell.wait_timeout_while(queue, within, |queue| !queue.is_over));
    }

    fn next(&self) -> Option<Vec<u8>> {
        let is_idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.is_closed;
        let woken = self.bell.wait_while(self.queue(), is_idle);
        let mut queue = woken.unwrap_or_else(PoisonError::into_inner);
        let item = queue.waiting.pop_front()?;
        queue.bytes -= item.bytes.len();
        drop(queue);
        self.bell.notify_all();
        Some(item.bytes)
    }

    fn over(&self) {
        self.queue().is_over = true;
        self.bell.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    const A_WHILE: Duration = Duration::from_millis(100);

    #[test]
    fn tl_3_calls_wait_at_the_door_while_too_much_is_undecided_or_unread() {
        let (mut from, to) = std::io::pipe().expect("there are pipes");
        let outbox = Outbox::start("test", to, || {}).expect("there are threads");
        // One alone always fits.
        let size = CALL_BYTES_MAX + 1;
        outbox.room(size);
        let (tell, told) = channel();
        let waiting = Arc::clone(&outbox);
        let reader = std::thread::spawn(move || {
            for bytes in [10, CALL_BYTES_MAX, 1] {
                waiting.room(bytes);
                tell.send(bytes).expect("somebody listens");
            }
        });
        assert_eq!(told.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout), "one is undecided");
        outbox.drop_room(size);
        assert_eq!(told.recv_timeout(PATIENCE), Ok(10));
        assert_eq!(told.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
        outbox.call(vec![b'x'; 10], Vec::new());
        assert_eq!(told.recv_timeout(PATIENCE), Ok(CALL_BYTES_MAX), "what is written is not here any more");
        outbox.call(vec![b'y'; CALL_BYTES_MAX], Vec::new());
        outbox.close(Duration::ZERO);
        let read = std::io::copy(&mut from.by_ref(), &mut std::io::sink()).expect("it is read");
        assert_eq!(read, 10 + CALL_BYTES_MAX as u64);
        assert_eq!(told.recv_timeout(PATIENCE), Ok(1));
        reader.join().expect("it ends");
    }
}
