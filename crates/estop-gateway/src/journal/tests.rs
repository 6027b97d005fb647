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
    assert!(queue.take(&mut taken, None).is_some());
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
    assert!(queue.take(&mut Handover::default(), Some(2 * TAIL_WITHIN)).is_some());
    assert_eq!(
        *tail.waited.lock().unwrap_or_else(PoisonError::into_inner),
        [1],
        "written before it was taken"
    );
}

/// A tail in memory that takes so many writes.
#[derive(Clone, Debug)]
struct Taking {
    left: Arc<AtomicU64>,
    lines: Arc<Mutex<Vec<u8>>>,
}

impl Tail for Taking {
    fn write(&self, lines: &[u8]) -> std::io::Result<()> {
        let take = |left: u64| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_err(|_| std::io::Error::other("full"))?;
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
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

/// Pushes records, flushed after each of `flushed`; the times on the wall that the taken lines tell.
fn pushed_and_taken(queue: &JournalQueue, taken: &mut Handover, walls: &[i64], flushed: &[i64]) {
    for wall in walls {
        // Lines of different lengths.
        let heads = Vec::new();
        let events = [SystemEvent::Started { found: None }, SystemEvent::Checkpointed { heads }];
        let event = events[usize::from(wall % 3 == 0)].clone();
        let decision = System::default().handle(Now::default(), &event);
        queue.write_system(Now { wall: *wall, ..Now::default() }, event, decision);
        if flushed.contains(wall) {
            queue.flush();
        }
    }
    assert!(queue.take(taken, None).is_some());
    let told: Vec<i64> = taken
        .iter()
        .filter_map(|(record, written)| {
            let Recorded::System { now, event, decision } = record else { return None };
            let (event, decision) = (serde_json::to_vec(event), serde_json::to_vec(decision));
            assert_eq!(written.event(), event.expect("JSON"));
            assert_eq!(written.decision(), decision.expect("JSON"));
            Some(now.wall)
        })
        .collect();
    assert_eq!(told, walls);
}

#[test]
fn st_1_each_record_is_taken_with_its_line_wherever_the_tail_was_flushed() {
    let tail = Taking { left: Arc::new(AtomicU64::new(5)), lines: Arc::default() };
    let queue = JournalQueue::with_tail(Box::new(tail.clone()), TailMark::default());
    let mut taken = Handover::default();
    pushed_and_taken(&queue, &mut taken, &[1, 2, 3, 4, 5, 6, 7], &[1, 4, 6]);
    pushed_and_taken(&queue, &mut taken, &[8, 9], &[9]);
    let lines = tail.lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let is_of = |(nth, line): (usize, &[u8])| {
        String::from_utf8_lossy(line).contains(&format!("\"wall\":{},", nth + 1))
    };
    assert_eq!(
        lines.split_inclusive(|byte| *byte == b'\n').enumerate().filter(|line| is_of(*line)).count(),
        9
    );
    // The tail takes no more: nothing new is let through, and what happens still comes to the writer.
    pushed_and_taken(&queue, &mut taken, &[10, 11, 12], &[10, 11]);
    assert!(queue.has_failed());
    pushed_and_taken(&queue, &mut taken, &[13, 14], &[13]);
    assert_eq!(*tail.lines.lock().unwrap_or_else(PoisonError::into_inner), lines);
}

/// A record that nobody hurries for.
fn push_one(queue: &JournalQueue, wall: i64) {
    let what = estop_core::event::EventKind::Tick;
    let decision = Arc::new(Decision::plain(estop_core::decision::Outcome::Noted));
    queue.write("a", NonZeroU64::MIN, Now { wall, ..Now::default() }, Event::open(what), &decision);
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn st_1_whoever_gathers_is_woken_by_a_portion_a_stop_and_the_end() {
    let queue = Arc::new(JournalQueue::default());
    let take = |queue: &Arc<JournalQueue>| {
        let queue = Arc::clone(queue);
        std::thread::spawn(move || {
            let mut taken = Handover::default();
            let portion = queue.take(&mut taken, Some(LONG)).expect("told how long");
            (taken.len(), portion.hurries)
        })
    };
    let gathers = take(&queue);
    (0..PORTION as i64).for_each(|wall| push_one(&queue, wall));
    assert_eq!(gathers.join().expect("no panic"), (PORTION, false));
    let gathers = take(&queue);
    push_one(&queue, 1);
    let event = SystemEvent::Started { found: None };
    let decision = System::default().handle(Now::default(), &event);
    queue.write_system(Now::default(), event, decision);
    let (count, hurries) = gathers.join().expect("no panic");
    assert!(hurries && (1..=2).contains(&count), "{count}");
    let gathers = take(&queue);
    push_one(&queue, 2);
    queue.close();
    assert!(gathers.join().expect("no panic").1);
    assert!(queue.take(&mut Handover::default(), None).is_none());
}

#[test]
fn st_1_a_stop_hurries_one_portion() {
    let queue = JournalQueue::default();
    queue.hurry.store(true, Ordering::Relaxed);
    push_one(&queue, 1);
    let mut taken = Handover::default();
    assert!(queue.take(&mut taken, None).is_some_and(|portion| portion.hurries));
    push_one(&queue, 2);
    assert!(queue.take(&mut taken, None).is_some_and(|portion| !portion.hurries));
}

#[test]
fn st_1_records_keep_their_lines_whoever_pushes_and_flushes_at_once() {
    const EACH: i64 = 20_000;
    let tail = Taking { left: Arc::new(AtomicU64::new(u64::MAX)), lines: Arc::default() };
    let queue = JournalQueue::with_tail(Box::new(tail.clone()), TailMark::default());
    let is_over = AtomicBool::new(false);
    let mut walls = Vec::new();
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
        let taker = scope.spawn(|| {
            let (mut taken, mut found) = (Handover::default(), Vec::new());
            while !is_over.load(Ordering::Relaxed) || queue.pushed() > found.len() as u64 {
                queue.take(&mut taken, Some(Duration::from_millis(1))).expect("told how long");
                for (record, written) in taken.iter() {
                    let Recorded::Agent { now, .. } = record else { continue };
                    assert_eq!((written.chain(), written.decision()), ("a", &b"{}"[..]));
                    found.push(now.wall);
                }
            }
            found
        });
        pushers.into_iter().for_each(|pusher| pusher.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
        walls = taker.join().expect("no panic");
    });
    // The tail has the same lines in the same order.
    let lines = tail.lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let told = String::from_utf8(lines).expect("text");
    let told: Vec<i64> = told
        .lines()
        .filter_map(|line| line.split("\"wall\":").nth(1)?.split(',').next()?.parse().ok())
        .collect();
    assert_eq!(told, walls);
    walls.sort_unstable();
    assert!(walls.into_iter().eq(0..3 * EACH), "each once");
}
