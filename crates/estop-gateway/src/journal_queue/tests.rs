//! The queue with nobody behind it.

use std::sync::OnceLock;

use estop_core::system::System;

use super::*;

#[test]
fn st_1_a_queue_is_full_until_its_writer_takes_what_waits() {
    let (queue, event) = (JournalQueue::default(), SystemEvent::Started { found: None });
    let decision = System::default().handle(Now::default(), &event);
    let push = || {
        queue.write_system(Now::default(), event.clone(), decision);
    };
    (1..WAITING_MAX).for_each(|_| push());
    assert!(!queue.is_full());
    // What belongs to requests already let through still gets in.
    push();
    push();
    assert!(queue.is_full());
    let mut taken = Handover::default();
    assert!(queue.take(&mut taken).is_some());
    assert_eq!(taken.len(), WAITING_MAX + 1);
    assert!(!queue.is_full());
}

/// Notes how many records still wait for the writer when their lines come.
#[derive(Clone, Debug, Default)]
struct Watching {
    queue: Arc<OnceLock<Arc<JournalQueue>>>,
    waited: Arc<Mutex<Vec<usize>>>,
}

impl Tail for Watching {
    fn write(&self, _: &[u8]) -> std::io::Result<()> {
        let waiting = self.queue.get().map_or(0, |queue| queue.waiting().records.len());
        self.waited.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn next_generation(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn forget_before(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn st_1_a_record_nobody_asks_about_is_in_the_tail_while_its_batch_is_gathered() {
    let tail = Watching::default();
    let queue = Arc::new(JournalQueue::with_tail(Box::new(tail.clone()), TailMark::default()));
    tail.queue.set(Arc::clone(&queue)).expect("set once");
    let event = SystemEvent::Started { found: None };
    let decision = System::default().handle(Now::default(), &event);
    queue.write_system(Now::default(), event, decision);
    // Nobody was stopped: the writer takes its time.
    queue.hurry.store(false, Ordering::Relaxed);
    assert!(queue.take(&mut Handover::default()).is_some());
    assert_eq!(
        *tail.waited.lock().unwrap_or_else(PoisonError::into_inner),
        [1],
        "written before it was taken"
    );
}
