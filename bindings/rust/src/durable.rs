// SPDX-License-Identifier: BSD-3-Clause
//! Futures that are ready when a transaction is durable, and the thread that waits for them.

use super::{check, sys, Result, Ticket};
use std::future::Future;
use std::mem;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

/// The same also after a panic: nothing here is half done between two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[derive(Debug, Default)]
struct State {
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

/// The future of [`Heap::durable`](crate::Heap::durable).
#[derive(Debug)]
#[must_use = "it is durable when the future is ready"]
pub struct Durable(Arc<Mutex<State>>);

impl Future for Durable {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.0);
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        if !state.waker.as_ref().map_or(false, |waker| waker.will_wake(context.waker())) {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

fn complete(state: &Mutex<State>, result: Result<()>) {
    let waker = {
        let mut state = lock(state);
        state.result = Some(result);
        state.waker.take()
    };
    if let Some(waker) = waker {
        // A panic of the executor's must not end the thread, for whom others wait.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

#[derive(Debug, Default)]
struct Queue {
    asked: Vec<(Ticket, Arc<Mutex<State>>)>,
    ends: bool,
}
type Shared = (Mutex<Queue>, Condvar);

/// The thread of a heap; it runs from the first question on.
#[derive(Debug)]
pub struct Waiter {
    process: u32,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Raw(NonNull<sys::fur_heap>);
// Safety: libfur's functions for heaps may be called by any thread, and Waiter::end() joins the
// thread before the heap is closed.
unsafe impl Send for Raw {}

impl Waiter {
    pub fn new() -> Waiter {
        let (process, shared, thread) = (std::process::id(), Arc::default(), Mutex::new(None));
        Waiter { process, shared, thread }
    }
    pub fn ask(&self, heap: NonNull<sys::fur_heap>, ticket: Ticket) -> Durable {
        let state = Arc::new(Mutex::new(State::default()));
        if self.process != std::process::id() {
            // A child of fork() has no such thread.
            complete(&state, check(unsafe { sys::fur_sync(heap.as_ptr()) }).map(drop));
            return Durable(state);
        }
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let (shared, raw) = (self.shared.clone(), Raw(heap));
            *thread = Some(std::thread::spawn(move || run(raw, &shared)));
        }
        drop(thread);
        let (queue, changed) = &*self.shared;
        lock(queue).asked.push((ticket, state.clone()));
        changed.notify_one();
        Durable(state)
    }
    /// Complete all futures, and end the thread.  The heap is open.
    pub fn end(&self, heap: NonNull<sys::fur_heap>) {
        let thread = match lock(&self.thread).take() {
            Some(thread) if self.process == std::process::id() => thread,
            other => return mem::forget(other),
        };
        let (queue, changed) = &*self.shared;
        lock(queue).ends = true;
        if thread.thread().id() == std::thread::current().id() {
            // A waker has dropped the heap's last owner: the thread ends after it, without a heap.
            let asked = mem::take(&mut lock(queue).asked);
            for (_, state) in asked {
                complete(&state, check(unsafe { sys::fur_sync(heap.as_ptr()) }).map(drop));
            }
            return;
        }
        changed.notify_one();
        thread.join().expect("no panic");
    }
}

fn run(heap: Raw, (queue, changed): &Shared) {
    let mut me = ptr::null_mut();
    let name = b"libfur-durable\0".as_ptr().cast();
    let registered = check(unsafe { sys::fur_thread_register(heap.0.as_ptr(), name, &mut me) });
    loop {
        let mut queue = lock(queue);
        while queue.asked.is_empty() && !queue.ends {
            queue = changed.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let asked = mem::take(&mut queue.asked);
        drop(queue);
        if asked.is_empty() {
            return;
        }
        // The first wait serves all that is visible; the others find that.
        let wait = |ticket: Ticket| match &registered {
            Ok(_) => check(unsafe { sys::fur_wait(me, ticket.0) }).map(drop),
            Err(error) => Err(error.clone()),
        };
        let results: Vec<_> =
            asked.into_iter().map(|(ticket, state)| (state, wait(ticket))).collect();
        // A waker may drop the heap.
        for (state, result) in results {
            complete(&state, result);
        }
    }
}
