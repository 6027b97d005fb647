//! Wakes that nobody needs are not passed on. hyper wakes a connection's task whenever a piece of a body is taken from
//! it, also when the body is over and the task has nothing left to do for it: a turn for nothing with each request.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use atomic_waker::AtomicWaker;
use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;

thread_local! {
    /// Somebody takes a piece of a body on this thread.
    static TAKING: Cell<bool> = const { Cell::new(false) };
    /// Who was woken by that.
    static WOKEN: RefCell<Option<Arc<Task>>> = const { RefCell::new(None) };
}

/// The task of a connection.
#[derive(Default)]
struct Task(AtomicWaker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !TAKING.get() {
            return self.0.wake();
        }
        // Several at once: all but the first are passed on.
        let is_first = WOKEN.with_borrow_mut(|woken| match woken {
            None => woken.replace(Arc::clone(self)).is_none(),
            Some(_) => false,
        });
        if !is_first {
            self.0.wake();
        }
    }
}

/// A connection whose task can be hushed.
pub(crate) struct Hushed<F> {
    // Boxed: it must not move, and is large.
    connection: Pin<Box<F>>,
    task: Arc<Task>,
    waker: Waker,
}

impl<F: Future> Hushed<F> {
    pub(crate) fn new(connection: F) -> Hushed<F> {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        Hushed { connection: Box::pin(connection), task, waker }
    }
}

impl<F: Future> Future for Hushed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let hushed = &mut *self;
        hushed.task.0.register(cx.waker());
        hushed.connection.as_mut().poll(&mut Context::from_waker(&hushed.waker))
    }
}

/// Takes the next piece of a body. If it is the last one, the connection it came on is not woken.
pub(crate) fn poll_frame(
    body: &mut Incoming,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    let taking = Taking::begin();
    let frame = Pin::new(&mut *body).poll_frame(cx);
    let woken = taking.end();
    // Of a body whose length is known this is exact; of any other it is never so.
    if let Some(task) = woken.filter(|_| !body.is_end_stream()) {
        task.0.wake();
    }
    frame
}

/// While it lives, wakes are kept.
struct Taking;

impl Taking {
    fn begin() -> Taking {
        TAKING.set(true);
        Taking
    }

    fn end(self) -> Option<Arc<Task>> {
        drop(self);
        WOKEN.take()
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKING.set(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection that hands its waker out.
    struct Connection(Arc<RefCell<Option<Waker>>>);

    impl Future for Connection {
        type Output = ();

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.0.replace(Some(cx.waker().clone()));
            Poll::Pending
        }
    }

    fn polled() -> (Arc<Count>, Waker) {
        let (count, waker) = (Arc::new(Count::default()), Arc::default());
        let mut hushed = Hushed::new(Connection(Arc::clone(&waker)));
        let outer = Waker::from(Arc::clone(&count));
        assert!(Pin::new(&mut hushed).poll(&mut Context::from_waker(&outer)).is_pending());
        let inner = waker.take().expect("it was polled");
        (count, inner)
    }

    fn woken(count: &Count) -> u32 {
        count.0.load(Ordering::Relaxed)
    }

    #[test]
    fn a_wake_is_passed_on() {
        let (count, waker) = polled();
        waker.wake_by_ref();
        assert_eq!(woken(&count), 1);
    }

    #[test]
    fn a_wake_while_a_piece_is_taken_is_kept_for_whoever_takes_it() {
        let ((first, waker), (second, other)) = (polled(), polled());
        let taking = Taking::begin();
        waker.wake_by_ref();
        other.wake_by_ref();
        let kept = taking.end().expect("it was kept");
        assert_eq!((woken(&first), woken(&second)), (0, 1), "only one is kept");
        kept.0.wake();
        assert_eq!(woken(&first), 1);
        waker.wake_by_ref();
        assert!(WOKEN.take().is_none());
    }
}
