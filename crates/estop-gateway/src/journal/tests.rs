//! The queue with nobody behind it.

use std::sync::OnceLock;

use estop_core::system::System;
use estop_journal::{Head, Record, check_line, lines_of};

use super::*;

fn push_started(queue: &JournalQueue) {
    let event = SystemEvent::Started { found: None };
    let decision = System::default().handle(Now::default(), &event);
    queue.write_system(Now::default(), event, decision);
}

#[test]
fn st_1_a_queue_is_full_until_its_reader_takes_what_waits() {
    let queue = JournalQueue::default();
    (1..WAITING_MAX).for_each(|_| push_started(&queue));
    assert!(!queue.is_full());
    // What belongs to requests already let through still gets in.
    push_started(&queue);
    push_started(&queue);
    assert!(queue.is_full());
    let mut taken = Vec::new();
    assert!(queue.take(&mut taken, None).is_some());
    assert_eq!(taken.len(), WAITING_MAX + 1);
    assert!(!queue.is_full());
}

/// A file in memory that takes so many writes.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<InMemory>);

#[derive(Debug)]
struct InMemory {
    left: AtomicU64,
    lines: Mutex<Vec<u8>>,
    /// It is time for the next file.
    is_long: AtomicBool,
    /// Files that were begun: after which record, and how many bytes there were before.
    begun: Mutex<Vec<(u64, usize)>>,
    /// Counts what still waits for the reader when lines come.
    queue: OnceLock<Arc<JournalQueue>>,
    waited: Mutex<Vec<usize>>,
}

impl Default for InMemory {
    fn default() -> InMemory {
        let (lines, is_long, begun, queue, waited) = Default::default();
        InMemory { left: AtomicU64::new(u64::MAX), lines, is_long, begun, queue, waited }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JournalFile for Memory {
    fn write(&self, lines: &[u8], seq: u64) -> std::io::Result<()> {
        let take = |left: u64| left.checked_sub(1);
        let taken = self.0.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| std::io::Error::other("full"))?;
        let waiting = self.0.queue.get().map_or(0, |queue| queue.waiting().records.len());
        locked(&self.0.waited).push(waiting);
        let last = lines.split(|byte| *byte == b'\n').filter_map(Head::read).next_back();
        assert_eq!(last.map(|head| head.seq), Some(seq), "the last record among them");
        locked(&self.0.lines).extend_from_slice(lines);
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn is_long(&self) -> bool {
        self.0.is_long.load(Ordering::Relaxed)
    }
    fn begin_next(&self, state: &State) -> std::io::Result<()> {
        self.0.is_long.store(false, Ordering::Relaxed);
        let bytes = locked(&self.0.lines).len();
        locked(&self.0.begun).push((state.seq, bytes));
        Ok(())
    }
}

impl Memory {
    fn queue(&self) -> JournalQueue {
        JournalQueue::with_file(Box::new(self.clone()), State::default())
    }

    /// The numbers and times of all records, whose checksums hold.
    fn records(&self) -> Vec<(u64, i64)> {
        let lines = locked(&self.0.lines).clone();
        let lines = lines_of(&lines);
        lines
            .map(|line| {
                assert_eq!(check_line(line), Ok(()));
                let record = Record::parse(line).expect("a record");
                (record.seq, record.now.wall)
            })
            .collect()
    }
}

#[test]
fn st_1_a_record_nobody_asks_about_is_in_the_file_while_its_batch_is_gathered() {
    let file = Memory::default();
    let queue = Arc::new(file.queue());
    file.0.queue.set(Arc::clone(&queue)).expect("set once");
    push_started(&queue);
    // Nobody was stopped: the reader takes its time.
    queue.hurry.store(false, Ordering::Relaxed);
    assert!(queue.take(&mut Vec::new(), Some(2 * WRITTEN_WITHIN)).is_some());
    assert_eq!(*locked(&file.0.waited), [1], "written before it was taken");
}

/// A record that nobody hurries for.
fn push_one(queue: &JournalQueue, wall: i64) {
    let what = estop_core::event::EventKind::Tick;
    let decision = Arc::new(Decision::plain(estop_core::decision::Outcome::Noted));
    queue.write(&"a".into(), Now { wall, ..Now::default() }, Event::open(what), &decision);
}

fn wall(queued: &Queued) -> i64 {
    match &queued.record {
        Recorded::Agent { now, .. } | Recorded::System { now, .. } => now.wall,
    }
}

/// Pushes records, flushed after each of `flushed`, and takes them.
fn push_and_take(queue: &JournalQueue, walls: &[i64], flushed: &[i64]) -> Portion {
    for wall in walls {
        push_one(queue, *wall);
        if flushed.contains(wall) {
            queue.flush();
        }
    }
    let mut taken = Vec::new();
    let portion = queue.take(&mut taken, None).expect("it is not closed");
    assert_eq!(taken.iter().map(wall).collect::<Vec<_>>(), walls);
    assert_eq!(taken.last().map(|queued| queued.seq), Some(portion.seq));
    portion
}

#[test]
fn st_1_each_record_is_in_the_file_once_wherever_it_was_flushed() {
    let file = Memory::default();
    file.0.left.store(5, Ordering::Relaxed);
    let queue = file.queue();
    push_and_take(&queue, &[1, 2, 3, 4, 5, 6, 7], &[1, 4, 6]);
    push_and_take(&queue, &[8, 9], &[9]);
    let nine: Vec<(u64, i64)> = (1..=9).map(|nth| (nth, nth as i64)).collect();
    assert_eq!(file.records(), nine);
    // The file takes no more: nothing new is let through, and what happens still comes to the reader.
    push_and_take(&queue, &[10, 11, 12], &[10, 11]);
    assert!(queue.has_failed() && queue.is_full() && !queue.sync());
    push_and_take(&queue, &[13, 14], &[13]);
    assert_eq!(file.records(), nine);
}

#[test]
fn st_1_the_next_file_begins_after_the_last_record_that_was_taken() {
    let file = Memory::default();
    let queue = file.queue();
    push_and_take(&queue, &[1, 2], &[1]);
    assert_eq!(*locked(&file.0.begun), []);
    file.0.is_long.store(true, Ordering::Relaxed);
    push_and_take(&queue, &[3, 4], &[3]);
    let bytes = locked(&file.0.lines).len();
    push_and_take(&queue, &[5], &[]);
    assert_eq!(*locked(&file.0.begun), [(4, bytes)], "everything before was written");
    assert_eq!(file.records().len(), 5);
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn st_1_whoever_gathers_is_woken_by_a_portion_a_stop_and_the_end() {
    let queue = Arc::new(JournalQueue::default());
    let take = |queue: &Arc<JournalQueue>| {
        let queue = Arc::clone(queue);
        std::thread::spawn(move || {
            let mut taken = Vec::new();
            let portion = queue.take(&mut taken, Some(LONG)).expect("told how long");
            (taken.len(), portion.hurries)
        })
    };
    let gathers = take(&queue);
    (0..PORTION as i64).for_each(|wall| push_one(&queue, wall));
    assert_eq!(gathers.join().expect("no panic"), (PORTION, false));
    let gathers = take(&queue);
    push_one(&queue, 1);
    push_started(&queue);
    let (count, hurries) = gathers.join().expect("no panic");
    assert!(hurries && (1..=2).contains(&count), "{count}");
    let gathers = take(&queue);
    push_one(&queue, 2);
    queue.close();
    assert!(gathers.join().expect("no panic").1);
    assert!(queue.take(&mut Vec::new(), None).is_none());
}

#[test]
fn st_1_a_stop_hurries_one_portion() {
    let queue = JournalQueue::default();
    queue.hurry.store(true, Ordering::Relaxed);
    assert!(push_and_take(&queue, &[1], &[]).hurries);
    assert!(!push_and_take(&queue, &[2], &[]).hurries);
}

#[test]
fn st_1_records_keep_their_order_whoever_pushes_and_flushes_at_once() {
    const EACH: i64 = 20_000;
    let file = Memory::default();
    let queue = file.queue();
    let is_over = AtomicBool::new(false);
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        let pushers: Vec<_> = (0..3)
            .map(|who| {
                let queue = &queue;
                scope.spawn(move || {
                    for nth in 0..EACH {
                        push_one(queue, who * EACH + nth);
                        if nth % 7 == who {
                            queue.flush();
                        }
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let (mut portion, mut found) = (Vec::new(), Vec::new());
            while !is_over.load(Ordering::Relaxed) || queue.seq() > found.len() as u64 {
                queue.take(&mut portion, Some(Duration::from_millis(1))).expect("told how long");
                found.extend(portion.iter().map(|queued| (queued.seq, wall(queued))));
                file.0.is_long.store(found.len() % 5 == 0, Ordering::Relaxed);
            }
            found
        });
        pushers.into_iter().for_each(|pusher| pusher.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
        taken = reader.join().expect("no panic");
    });
    assert_eq!(file.records(), taken, "the file has the same records in the same order");
    assert!(taken.iter().map(|(seq, _)| *seq).eq(1..=3 * EACH as u64), "numbered without gaps");
    let mut walls: Vec<i64> = taken.into_iter().map(|(_, wall)| wall).collect();
    walls.sort_unstable();
    assert!(walls.into_iter().eq(0..3 * EACH), "each once");
}
