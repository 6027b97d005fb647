//! A store that answers in time or not at all: a database that is locked or a disk that hangs must not keep an alert from
//! going out (KS-2). What was asked of it goes on meanwhile, and may still come about.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use estop_core::ids::Name;
use estop_store::{
    AlertCommit, AlertRule, Alerts, Delivery, DeliveryFilter, DueAlert, LoggedDelivery, StoreError, Waiting,
};

/// So long a store may take. Chosen: a hundred times what a busy disk needs, and nobody who must be told waits longer.
const TIMEOUT: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce(&dyn Alerts) + Send>;

/// Asks a store on a thread of its own.
pub(crate) struct StoreWithTimeout {
    hand: Mutex<StoreThread>,
    within: Duration,
}

struct StoreThread {
    jobs: Option<Sender<Job>>,
    /// Tells when the job that took too long is done.
    late: Option<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreWithTimeout {
    pub(crate) fn new(store: Arc<dyn Alerts>) -> std::io::Result<StoreWithTimeout> {
        StoreWithTimeout::within(store, TIMEOUT)
    }

    fn within(store: Arc<dyn Alerts>, within: Duration) -> std::io::Result<StoreWithTimeout> {
        let (jobs, waiting) = channel::<Job>();
        let work = move || waiting.into_iter().for_each(|job| job(&*store));
        let thread = std::thread::Builder::new().name("estop-notify-db".to_owned()).spawn(work)?;
        let hand = StoreThread { jobs: Some(jobs), late: None, thread: Some(thread) };
        Ok(StoreWithTimeout { hand: Mutex::new(hand), within })
    }

    /// One question at a time: as long as the last one has no answer, the store is busy.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Alerts) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut hand = self.hand.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(late) = &hand.late {
            match late.recv_timeout(Duration::ZERO) {
                Err(RecvTimeoutError::Timeout) => return Err(StoreError::Busy),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => hand.late = None,
            }
        }
        let (reply, answer) = sync_channel(1);
        let (done, late) = channel();
        let job: Job = Box::new(move |store| {
            // Nobody listens if it took too long; it is done all the same.
            let _ = reply.send(question(store));
            drop(done);
        });
        let jobs = hand.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(job).map_err(|_| StoreError::Closed)?;
        match answer.recv_timeout(self.within) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(StoreError::Closed),
            Err(RecvTimeoutError::Timeout) => {
                hand.late = Some(late);
                Err(StoreError::Busy)
            }
        }
    }
}

impl Drop for StoreWithTimeout {
    fn drop(&mut self) {
        let hand = self.hand.get_mut().unwrap_or_else(PoisonError::into_inner);
        hand.jobs = None;
        // A thread that hangs in a dead disk is left behind.
        if let Some(thread) = hand.thread.take().filter(|_| hand.late.is_none()) {
            let _ = thread.join();
        }
    }
}

impl Alerts for StoreWithTimeout {
    fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError> {
        let rule = rule.clone();
        self.ask(move |store| store.put_rule(&rule))
    }

    fn rules(&self) -> Result<Vec<AlertRule>, StoreError> {
        self.ask(|store| store.rules())
    }

    fn delete_rule(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.ask(move |store| store.delete_rule(&id))
    }

    fn commit_alerts(&self, commit: AlertCommit) -> Result<usize, StoreError> {
        self.ask(move |store| store.commit_alerts(commit))
    }

    fn alert_memory(&self, prefix: &str) -> Result<Vec<(Name, String)>, StoreError> {
        let prefix = prefix.to_owned();
        self.ask(move |store| store.alert_memory(&prefix))
    }

    fn next_alert(&self, target: &str) -> Result<Option<DueAlert>, StoreError> {
        let target = target.to_owned();
        self.ask(move |store| store.next_alert(&target))
    }

    fn waiting_alerts(&self) -> Result<Vec<Waiting>, StoreError> {
        self.ask(|store| store.waiting_alerts())
    }

    fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError> {
        let delivery = delivery.clone();
        self.ask(move |store| store.mark_alert(id, &delivery))
    }

    fn deliveries(&self, filter: &DeliveryFilter, limit: usize) -> Result<Vec<LoggedDelivery>, StoreError> {
        let filter = filter.clone();
        self.ask(move |store| store.deliveries(&filter, limit))
    }

    fn sweep_alerts(&self, before: i64, prefix: &str) -> Result<usize, StoreError> {
        let prefix = prefix.to_owned();
        self.ask(move |store| store.sweep_alerts(before, &prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use estop_store::{Sqlite, SqliteOptions};

    /// A store whose writes wait for somebody.
    struct Held {
        store: Sqlite,
        gate: Mutex<Receiver<()>>,
    }

    impl Alerts for Held {
        fn put_rule(&self, rule: &AlertRule) -> Result<u64, StoreError> {
            self.store.put_rule(rule)
        }
        fn rules(&self) -> Result<Vec<AlertRule>, StoreError> {
            self.store.rules()
        }
        fn delete_rule(&self, id: &str) -> Result<(), StoreError> {
            self.store.delete_rule(id)
        }
        fn commit_alerts(&self, commit: AlertCommit) -> Result<usize, StoreError> {
            let _ = self.gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
            self.store.commit_alerts(commit)
        }
        fn alert_memory(&self, prefix: &str) -> Result<Vec<(Name, String)>, StoreError> {
            self.store.alert_memory(prefix)
        }
        fn next_alert(&self, target: &str) -> Result<Option<DueAlert>, StoreError> {
            self.store.next_alert(target)
        }
        fn waiting_alerts(&self) -> Result<Vec<Waiting>, StoreError> {
            self.store.waiting_alerts()
        }
        fn mark_alert(&self, id: u64, delivery: &Delivery) -> Result<(), StoreError> {
            self.store.mark_alert(id, delivery)
        }
        fn deliveries(
            &self,
            filter: &DeliveryFilter,
            limit: usize,
        ) -> Result<Vec<LoggedDelivery>, StoreError> {
            self.store.deliveries(filter, limit)
        }
        fn sweep_alerts(&self, before: i64, prefix: &str) -> Result<usize, StoreError> {
            self.store.sweep_alerts(before, prefix)
        }
    }

    #[test]
    fn ks_2_a_store_that_hangs_is_busy_and_what_was_asked_comes_about_late() {
        let folder = tempfile::tempdir().expect("a folder");
        let store =
            Sqlite::open(&folder.path().join("estop.db"), SqliteOptions::default()).expect("it opens");
        let (open, gate) = channel();
        let held = Arc::new(Held { store, gate: Mutex::new(gate) });
        let timely = StoreWithTimeout::within(held, Duration::from_millis(50)).expect("a thread");
        let alert = estop_store::NewAlert {
            dedupe: "one".into(),
            target: "ops".into(),
            payload: "{}".to_owned(),
            created_at: 1,
            due_at: 1,
        };
        let commit = AlertCommit { at: 1, alerts: vec![alert], memory: Vec::new() };
        assert_eq!(timely.commit_alerts(commit), Err(StoreError::Busy));
        assert_eq!(timely.next_alert("ops"), Err(StoreError::Busy), "nobody waits for it again");
        open.send(()).expect("it listens");
        let found = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            timely.next_alert("ops").ok()
        });
        assert_eq!(found.flatten().map(|due| due.alert.dedupe), Some("one".into()));
    }
}
