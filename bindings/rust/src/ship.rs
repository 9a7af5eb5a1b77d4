// SPDX-License-Identifier: BSD-3-Clause
//! Heaps whose updates are shipped to other machines: standbys, and tokens.

#[cfg(doc)]
use super::code;
use super::{c_string, check, report, sys, text, Error, Heap, Level, Result, Thread};
use std::ffi::CString;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// All updates up to one, as [`Thread::get_token`] returns it, for [`Heap::wait_token`], also in
/// another process or on another machine: hand it on as the two numbers that it is.  All zero: the
/// state before any update.  Tokens have no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Token {
    /// The uninterrupted series of updates.
    pub lineage: u64,
    /// The newest of its updates.
    pub durts: u64,
}

/// Options of [`Heap::follow`].
#[derive(Clone, Default)]
pub struct FollowOptions {
    settings: Vec<String>,
    log: Option<fn(Level, &str)>,
    patience_ms: u32,
}

impl FollowOptions {
    /// Every option at its default.
    pub fn new() -> FollowOptions {
        FollowOptions::default()
    }
    /// A setting for the client of the log; may be called again.
    pub fn setting(mut self, key: &str, value: &str) -> FollowOptions {
        self.settings.push(format!("{}={}", key, value));
        self
    }
    /// Call `f` with rare events: that the log cannot be reached, and that it can again; why the
    /// follower has ended; a promotion.  A thread of libfur calls it.  It must not use this heap.
    pub fn log(mut self, f: fn(Level, &str)) -> FollowOptions {
        self.log = Some(f);
        self
    }
    /// How long [`Follower::take_over`] waits for the log, in milliseconds; by default 10,000.
    pub fn patience_ms(mut self, ms: u32) -> FollowOptions {
        self.patience_ms = ms;
        self
    }
}

/// How far a [`Follower`] is.  The times are those of CLOCK_MONOTONIC in nanoseconds; 0: not yet.
/// A standby is as fresh as `caught_up_ns` says, and no fresher: the log may have had more a moment
/// later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowState {
    /// The newest update that readers find, as its primary counts them.
    pub newest: Token,
    /// Of the stream, as far as it has been read.
    pub term: u64,
    /// Likewise.
    pub frame: u64,
    /// The node that wrote it; 0: none has claimed the log.
    pub node: u64,
    /// This heap's own.
    pub own_node: u64,
    /// Messages that the log had and the follower had not read; `None`: it could not look.
    pub unread: Option<u64>,
    /// When it last had read everything that the log had.
    pub caught_up_ns: u64,
    /// When it last read a message of the stream's writer.
    pub heard_ns: u64,
    /// Since when the log has answered and had none of it; 0: it has one, or does not answer.
    pub silent_ns: u64,
    /// The node that the writer has asked to take over, or 0.
    pub heir: u64,
    /// The thread goes on.
    pub follows: bool,
    /// [`Follower::take_over`] has succeeded.
    pub promoted: bool,
    /// Why it has ended, or what it tries again after.
    pub error: Option<Error>,
}

/// What makes a standby follow its log.  Dropping it ends it; the heap stays a standby, and open.
/// Meanwhile reads and snapshots show the heap as it was at the primary between two updates, and an
/// update returns [`code::EREADONLY`].
///
/// ```compile_fail,E0505
/// # use libfur::{FollowOptions, Heap};
/// # fn f(heap: Heap) -> libfur::Result<()> {
/// let follower = heap.follow(&FollowOptions::new())?;
/// drop(heap);
/// follower.state()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Follower<'h> {
    raw: NonNull<sys::fur_follower>,
    heap: PhantomData<&'h Heap>,
}

// Safety: any thread may call libfur's functions for followers; only the drop, of whose value
// nobody has a reference, frees it.
unsafe impl Send for Follower<'_> {}
unsafe impl Sync for Follower<'_> {}

impl Follower<'_> {
    /// How far it is.
    pub fn state(&self) -> Result<FollowState> {
        // Safety: it is a C struct of numbers and bytes.
        let mut c: sys::fur_follow_state = unsafe { std::mem::zeroed() };
        c.size = std::mem::size_of::<sys::fur_follow_state>();
        check(unsafe { sys::fur_get_follow_state(self.raw.as_ptr(), &mut c) })?;
        Ok(FollowState {
            newest: Token { lineage: c.lineage, durts: c.durts },
            term: c.term,
            frame: c.frame,
            node: c.node,
            own_node: c.own_node,
            unread: if c.unread == u64::MAX { None } else { Some(c.unread) },
            caught_up_ns: c.caught_up_ns,
            heard_ns: c.heard_ns,
            silent_ns: c.silent_ns,
            heir: c.heir,
            follows: c.follows,
            promoted: c.promoted,
            error: match c.error {
                0 => None,
                error => Some(Error::new(error, &unsafe { text(c.message.as_ptr()) })),
            },
        })
    }
    /// Promote the standby: it claims the log, which fences the old primary, and applies all that
    /// the log has before the claim.  Then drop the follower, and close and open the heap: it is
    /// the primary, which fur-ship ships and programs update.
    ///
    /// `term`: that of the writer to be replaced, as [`FollowState::term`] was when you decided,
    /// so that of several standbys one takes over; 0: that of the writer now.
    ///
    /// Lost: what the old primary had not shipped.
    /// Durable: the claim, all updates before it, and the role, before return.
    /// Errors: [`code::EFENCED`], if another node has claimed the log since; [`code::EBEHIND`], if
    /// the log does not answer; inside a transaction.  The heap is a standby then, and follows on.
    pub fn take_over(&self, term: u64) -> Result<()> {
        check(unsafe { sys::fur_take_over(self.raw.as_ptr(), term) }).map(drop)
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        // It fails in a child of fork(), which has no such thread.
        unsafe { sys::fur_unfollow(self.raw.as_ptr()) };
    }
}

impl Heap {
    /// Follow the log of this heap, which is a standby, in a thread of libfur.
    /// Errors: if the heap is no standby, or has a follower.
    pub fn follow(&self, options: &FollowOptions) -> Result<Follower<'_>> {
        let settings: Vec<CString> = options
            .settings
            .iter()
            .map(|setting| c_string(setting.as_bytes(), "setting"))
            .collect::<Result<_>>()?;
        let mut pointers: Vec<_> = settings.iter().map(|setting| setting.as_ptr()).collect();
        pointers.push(ptr::null());
        let c = sys::fur_follow_options {
            size: std::mem::size_of::<sys::fur_follow_options>(),
            settings: pointers.as_ptr(),
            log: options.log.map_or(ptr::null_mut(), |_| report as *mut c_void),
            log_arg: options.log.map_or(ptr::null_mut(), |f| f as *mut c_void),
            patience_ms: options.patience_ms,
        };
        let mut raw = ptr::null_mut();
        check(unsafe { sys::fur_follow(self.raw.as_ptr(), &c, &mut raw) })?;
        Ok(Follower { raw: NonNull::new(raw).expect("a follower"), heap: PhantomData })
    }
    /// Wait until what the token stands for is here: at a standby, for read-only transactions that
    /// begin after the return; at the primary, until the log has acknowledged it, so that no
    /// fail-over loses it.  With a timeout of zero it only looks.  Any thread may call it.
    ///
    /// Errors: [`code::EBEHIND`], if it is not there yet; [`code::ELOST`], if a fail-over has lost
    /// some of it, or the heap cannot tell; if the heap is not shipped, or is a standby without a
    /// follower; inside a transaction.
    pub fn wait_token(&self, token: Token, timeout: Duration) -> Result<()> {
        let token = sys::fur_token { lineage: token.lineage, durts: token.durts };
        let ms = (timeout.as_nanos() + 999_999) / 1_000_000;
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        check(unsafe { sys::fur_wait_token(self.raw.as_ptr(), &token, ms) }).map(drop)
    }
}

impl Thread<'_> {
    /// A token for all that this thread's transactions have stored in the heap or read of it.  It
    /// waits until that is durable here.  Who calls [`Heap::wait_token`] with it at a standby finds
    /// all of it there.  At a standby, it is for what readers find there now.
    ///
    /// Errors: if the heap is not shipped; [`code::EBEHIND`], if no fur-ship has worked for it
    /// since it was opened; [`code::EFENCED`], if another heap has taken over; inside a
    /// transaction.
    pub fn get_token(&self) -> Result<Token> {
        let mut token = sys::fur_token { lineage: 0, durts: 0 };
        check(unsafe { sys::fur_get_token(self.raw.as_ptr(), &mut token) })?;
        Ok(Token { lineage: token.lineage, durts: token.durts })
    }
}
