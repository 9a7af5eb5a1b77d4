// SPDX-License-Identifier: BSD-3-Clause
//! Durable transactions and maps in a memory-mapped heap: libfur for Rust.
//!
//! ```
//! use libfur::{Heap, Options};
//!
//! fn main() -> libfur::Result<()> {
//!     # let path = &std::env::temp_dir().join(format!("libfur-{}.fur", std::process::id()));
//!     let heap = Heap::open_or_create(path, &Options::new())?;
//!     let me = heap.register()?;
//!     let stock = me.ordered_map("stock")?;
//!
//!     me.update(|tx| stock.put(tx, b"nuts", b"12"))?; // durable from here
//!     me.read(|tx| {
//!         assert_eq!(stock.get(tx, b"nuts")?, Some(&b"12"[..]));
//!         Ok(())
//!     })
//!     # .and_then(|()| std::fs::remove_file(path).map_err(|_| unreachable!()))
//! }
//! ```
//!
//! The types keep the rules of `fur.h`:
//!
//! - A change takes a `&mut Update`, so there is none in a read-only transaction:
//!
//! ```compile_fail,E0308
//! # fn f(me: libfur::Thread, map: libfur::HashMap) -> libfur::Result<()> {
//! me.read(|tx| map.put(tx, b"key", b"value"))?;
//! # Ok(())
//! # }
//! ```
//!
//! - A transaction lends values that it has not copied; they do not outlive it:
//!
//! ```compile_fail
//! # fn f(me: libfur::Thread, map: libfur::HashMap) -> libfur::Result<()> {
//! let value = me.read(|tx| map.get(tx, b"key"))?;
//! # Ok(())
//! # }
//! ```
//!
//! - A thread's registration stays with the thread:
//!
//! ```compile_fail,E0277
//! # fn f(me: libfur::Thread<'static>) {
//! std::thread::spawn(move || drop(me));
//! # }
//! ```
//!
//! - Maps and registrations do not outlive their heap:
//!
//! ```compile_fail,E0505
//! # fn f(heap: libfur::Heap) -> libfur::Result<()> {
//! let me = heap.register()?;
//! drop(heap);
//! me.read(|_| Ok(()))?;
//! # Ok(())
//! # }
//! ```
//!
//! - A [`Snapshot`] shows one state for as long as a report takes, and no update waits for it.
//!
//! Without hardware transactions, updates of this crate run one at a time, next to any number of
//! readers: libfur runs several only if it may leave their bodies in the middle, and Rust's frames
//! may not be left so.

mod durable;
mod set;
mod ship;
mod snapshot;
mod sys;

pub use durable::Durable;
pub use set::{HashSet, Keys, OrderedSet, Set};
pub use ship::{FollowOptions, FollowState, Follower, Token};
pub use snapshot::{Copies, OwnedEntry, Snapshot, View};

use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};

/// What [`Error::code`] returns: the FUR_E* codes of `fur.h`.
pub mod code {
    /// An argument or option is not acceptable.
    pub const EINVAL: i32 = -1;
    /// A system call failed.
    pub const ESYS: i32 = -2;
    /// No such heap file.
    pub const ENOENT: i32 = -3;
    /// The file exists.
    pub const EEXIST: i32 = -4;
    /// The file is no heap.
    pub const ENOTHEAP: i32 = -5;
    /// The heap is of a version or machine that the library cannot read.
    pub const EVERSION: i32 = -6;
    /// The file is damaged.
    pub const ECORRUPT: i32 = -7;
    /// Open elsewhere, or still in use.
    pub const EBUSY: i32 = -8;
    /// The heap's addresses are taken in this process.
    pub const EADDRESS: i32 = -9;
    /// No room in the heap, or on the disk.
    pub const ENOSPC: i32 = -10;
    /// More threads than the heap was made for.
    pub const ETHREADS: i32 = -11;
    /// What is open in this thread forbids it.
    pub const ENESTED: i32 = -12;
    /// No such transaction is open in this thread.
    pub const ENOTX: i32 = -13;
    /// The update stored outside the heap.
    pub const ERANGE: i32 = -14;
    /// The update does not fit its log.
    pub const ETOOBIG: i32 = -15;
    /// The update was rolled back.
    pub const EABORTED: i32 = -16;
    /// The medium failed.
    pub const EIO: i32 = -17;
    /// Out of memory.
    pub const ENOMEM: i32 = -18;
    /// What was freed is no block.
    pub const EFREE: i32 = -19;
    /// In a child of fork().
    pub const EFORK: i32 = -20;
    /// The heap is open read-only.
    pub const EREADONLY: i32 = -21;
    /// libfur could not keep what a snapshot shows.
    pub const ETOOOLD: i32 = -22;
    /// The shipping log acknowledges nothing.
    pub const EBEHIND: i32 = -23;
    /// Another heap has taken over.
    pub const EFENCED: i32 = -24;
    /// Durable here, and not acknowledged.
    pub const EINDOUBT: i32 = -25;
    /// Lost in a fail-over.
    pub const ELOST: i32 = -26;
    /// Other heaps of its group are needed.
    pub const EGROUP: i32 = -27;
}

/// A function of libfur has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    code: i32,
    message: String,
}

impl Error {
    fn last(code: c_int) -> Error {
        let message = unsafe { text(sys::fur_errormsg()) };
        let message =
            if message.is_empty() { unsafe { text(sys::fur_strerror(code)) } } else { message };
        Error { code, message }
    }
    fn new(code: c_int, message: &str) -> Error {
        Error { code, message: message.to_string() }
    }
    /// One of [`code`].
    pub fn code(&self) -> i32 {
        self.code
    }
}
impl fmt::Display for Error {
    /// The file, the problem and the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

unsafe fn text(of: *const std::os::raw::c_char) -> String {
    CStr::from_ptr(of).to_string_lossy().into_owned()
}
fn check(result: c_int) -> Result<c_int> {
    if result < 0 {
        Err(Error::last(result))
    } else {
        Ok(result)
    }
}
fn c_string(bytes: &[u8], what: &str) -> Result<CString> {
    CString::new(bytes)
        .map_err(|_| Error::new(code::EINVAL, &format!("the {} has a NUL in it", what)))
}

/// The version of libfur.so.
pub fn version() -> String {
    unsafe { text(sys::fur_version()) }
}

/// The persistence domain of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pm {
    /// `Pmem` or `Eadr` where the file is on a DAX file system, else `Sync`.
    Auto,
    /// Persistent memory: libfur writes cache lines back.
    Pmem,
    /// Persistent memory whose domain has the caches.
    Eadr,
    /// Any file taken for persistent memory.  Survives a killed process, NOT a power failure.
    Emulated,
    /// An ordinary file, with fdatasync.
    Sync,
}

/// What the transactions of a heap whose updates are shipped to other machines return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// What is durable on this machine; a fail-over may lose the newest of it.
    Local,
    /// What the shipping log has as well: no fail-over loses what a transaction has returned.
    Replicated,
}

/// The hardware transactions that a heap uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Htm {
    /// The best that the processor has.
    Auto,
    /// None: every update runs in software.  To test a program, as hardware hides some mistakes.
    None,
    /// Intel TSX.  Opening the heap fails where there is none.
    Tsx,
    /// Those of POWER8 and POWER9, likewise.
    Power,
}

/// What transactions see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// A state that some serial order explains.
    Opacity,
    /// On POWER, snapshot isolation: updates read without a limit of capacity.  Elsewhere as
    /// `Opacity`.  The maps are right in both.
    Snapshot,
}

/// How important what [`Options::log`] reports is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Info,
    /// Transactions go on; an operator may want to act.
    Warning,
    /// The heap has failed.
    Error,
}

/// fur_options.log.  No panic may leave it.
extern "C" fn report(level: c_int, message: *const std::os::raw::c_char, f: *mut c_void) {
    // Safety: Options::log() has made the pointer of such a function.
    let f: fn(Level, &str) = unsafe { std::mem::transmute(f) };
    let level = match level {
        0 => Level::Info,
        1 => Level::Warning,
        _ => Level::Error,
    };
    let _ = std::panic::catch_unwind(|| f(level, &unsafe { text(message) }));
}

/// Options of [`Heap::create`] and [`Heap::open`]: those of `fur.h`'s `struct fur_options`, which
/// describes them in full, but for `phase_times` and `reader_report`.
#[derive(Clone)]
pub struct Options(sys::fur_options);

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// Every option at its default.
    pub fn new() -> Options {
        // Safety: zero always means the default.
        let mut options: sys::fur_options = unsafe { std::mem::zeroed() };
        options.size = std::mem::size_of::<sys::fur_options>();
        Options(options)
    }
    /// The heap, allocator included; by default 64 MiB.  With `max_bytes`: its first size.
    pub fn heap_bytes(mut self, bytes: u64) -> Options {
        self.0.heap_bytes = bytes;
        self
    }
    /// The size up to which the heap grows by itself.
    pub fn max_bytes(mut self, bytes: u64) -> Options {
        self.0.max_bytes = bytes;
        self
    }
    /// The redo log of each thread, a power of two; by default 1 MiB.  It bounds an update.
    pub fn log_bytes(mut self, bytes: u64) -> Options {
        self.0.log_bytes = bytes;
        self
    }
    /// How many threads can be registered at a time; by default 64.
    pub fn max_threads(mut self, threads: u32) -> Options {
        self.0.max_threads = threads;
        self
    }
    /// Memory for what updates overwrite while a [`Snapshot`] is open; by default a quarter of the
    /// heap's largest size, at least 64 MiB.
    pub fn snapshot_bytes(mut self, bytes: u64) -> Options {
        self.0.snapshot_bytes = bytes;
        self
    }
    /// By default [`Pm::Auto`].  `FUR_PM` in the environment overrides it.
    pub fn pm(mut self, pm: Pm) -> Options {
        self.0.pm = pm as c_int;
        self
    }
    /// By default [`Htm::Auto`].  `FUR_HTM` in the environment overrides it.
    pub fn htm(mut self, htm: Htm) -> Options {
        self.0.htm = htm as c_int;
        self
    }
    /// By default [`Isolation::Opacity`].
    pub fn isolation(mut self, isolation: Isolation) -> Options {
        self.0.isolation = isolation as c_int;
        self
    }
    /// Durability markers, a power of two; by default 32768.  They bound the number of updates
    /// between replays.
    pub fn ring_slots(mut self, slots: u64) -> Options {
        self.0.ring_slots = slots;
        self
    }
    /// Where the heap is mapped, a multiple of 64 KiB from 4 GiB on; by default libfur chooses.
    /// The file records it.
    pub fn address(mut self, address: u64) -> Options {
        self.0.address = address;
        self
    }
    /// For heaps larger than memory: a soft limit on the process's private copies of pages, in
    /// bytes; by default there is none.
    pub fn dram_bytes(mut self, bytes: u64) -> Options {
        self.0.dram_bytes = bytes;
        self
    }
    /// A new file's permission bits, whatever the umask; by default 0o600.
    pub fn file_mode(mut self, mode: u32) -> Options {
        self.0.file_mode = mode;
        self
    }
    /// Roughly how long an update that ends with a ticket may remain volatile, in milliseconds; by
    /// default 10.
    pub fn async_ms(mut self, ms: u32) -> Options {
        self.0.async_ms = ms;
        self
    }
    /// By default [`Ack::Local`]; for a heap whose updates are shipped to other machines.
    pub fn ack(mut self, ack: Ack) -> Options {
        self.0.ack = ack as c_int;
        self
    }
    /// How long a thread of such a heap waits while the shipping log acknowledges nothing, in
    /// milliseconds; by default 10,000.
    pub fn ack_patience_ms(mut self, ms: u32) -> Options {
        self.0.ack_patience_ms = ms;
        self
    }
    /// [`Options::log`] gets a warning of a reader that has made an update wait for this long, in
    /// nanoseconds; by default 100 ms.
    pub fn reader_report_ns(mut self, ns: u64) -> Options {
        self.0.reader_report_ns = ns;
        self
    }
    /// Debugging aids, `FUR_DEBUG_*` of `fur.h`, or'ed; by default none.
    pub fn debug(mut self, aids: u64) -> Options {
        self.0.debug = aids;
        self
    }
    /// Call `f` with rare events that an operator wants to know: how libfur runs the heap, a
    /// recovery, a failure, a long reader.  It may be called in any thread, in [`Heap::create`],
    /// [`Heap::open`], [`Heap::close`] and at the end of updates.  It must not use this heap.
    pub fn log(mut self, f: fn(Level, &str)) -> Options {
        self.0.log = report as *mut c_void;
        self.0.log_arg = f as *mut c_void;
        self
    }
}

type Opener = unsafe extern "C" fn(
    *const std::os::raw::c_char,
    *const sys::fur_options,
    *mut *mut sys::fur_heap,
) -> c_int;

/// An open heap file.  Dropping it closes it; [`Heap::close`] also tells whether that succeeded.
#[derive(Debug)]
pub struct Heap {
    raw: NonNull<sys::fur_heap>,
    waiter: durable::Waiter,
    snapshots: snapshot::Dropped,
}

// Safety: libfur's functions for heaps may be called by any thread, at any time.
unsafe impl Send for Heap {}
unsafe impl Sync for Heap {}

impl Heap {
    fn with(function: Opener, path: &Path, options: &Options) -> Result<Heap> {
        let name = c_string(path.as_os_str().as_bytes(), "path")?;
        let mut raw = ptr::null_mut();
        check(unsafe { function(name.as_ptr(), &options.0, &mut raw) })?;
        Ok(Heap {
            raw: NonNull::new(raw).expect("a heap"),
            waiter: durable::Waiter::new(),
            snapshots: snapshot::Dropped::default(),
        })
    }
    /// Make a heap file, and open it.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Heap> {
        Heap::with(sys::fur_create, path.as_ref(), options)
    }
    /// Open a heap file; after a crash, replay its log first.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Heap> {
        Heap::with(sys::fur_open, path.as_ref(), options)
    }
    /// Open the heap file; if there is none, make it.
    pub fn open_or_create(path: impl AsRef<Path>, options: &Options) -> Result<Heap> {
        let mut options = options.clone();
        options.0.open = sys::FUR_OPEN_OR_CREATE;
        Heap::open(path, &options)
    }
    /// Close the heap; everything is durable then.  After an error the log is kept, and the next
    /// open replays it.
    pub fn close(self) -> Result<()> {
        let heap = std::mem::ManuallyDrop::new(self);
        heap.waiter.end(heap.raw);
        heap.snapshots.end();
        check(unsafe { sys::fur_close(heap.raw.as_ptr()) }).map(drop)
    }
    /// The size of the heap in bytes.
    pub fn bytes(&self) -> u64 {
        let mut info: sys::fur_info = unsafe { std::mem::zeroed() };
        info.size = std::mem::size_of::<sys::fur_info>();
        unsafe { sys::fur_get_info(self.raw.as_ptr(), &mut info) };
        info.heap_bytes
    }
    /// Copy the heap as of one instant to a new file, while it is in use.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        let name = c_string(path.as_ref().as_os_str().as_bytes(), "path")?;
        check(unsafe { sys::fur_backup(self.raw.as_ptr(), name.as_ptr()) }).map(drop)
    }
    /// Let the heap have this many bytes, up to [`Options::max_bytes`].
    pub fn grow(&self, bytes: u64) -> Result<()> {
        check(unsafe { sys::fur_grow(self.raw.as_ptr(), bytes) }).map(drop)
    }
    /// Wait until everything is durable that is visible now.  Any thread may call it.
    /// Errors: inside a transaction; if the medium has failed.
    pub fn sync(&self) -> Result<()> {
        check(unsafe { sys::fur_sync(self.raw.as_ptr()) }).map(drop)
    }
    /// A future that is ready when the ticket's transaction is durable.  It works in every
    /// executor: a thread waits for all such futures of the heap.  The first call starts that
    /// thread, which takes one of [`Options::max_threads`].  Closing the heap makes all ready.
    ///
    /// Its errors: those of [`Thread::wait`]; if the waiting thread cannot register.
    pub fn durable(&self, ticket: Ticket) -> Durable {
        self.waiter.ask(self.raw, ticket)
    }
    /// Register the calling thread, or find its registration, which ends when the thread does.
    pub fn register(&self) -> Result<Thread<'_>> {
        let mut raw = ptr::null_mut();
        check(unsafe { sys::fur_thread_register(self.raw.as_ptr(), std::ptr::null(), &mut raw) })?;
        let raw = NonNull::new(raw).expect("a registration");
        Ok(Thread { raw, heap: self, here: PhantomData })
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.waiter.end(self.raw);
        self.snapshots.end();
        // A destructor cannot report an error.  The log is kept, and the next open replays it.
        unsafe { sys::fur_close(self.raw.as_ptr()) };
    }
}

/// The calling thread's registration with a heap.
pub struct Thread<'h> {
    raw: NonNull<sys::fur_thread>,
    heap: &'h Heap,
    here: PhantomData<*mut ()>, // neither Send nor Sync
}

impl<'h> Thread<'h> {
    /// Run `body` as a read-only transaction: it reads one state of the heap.  Updates wait for
    /// readers that overlap them, so keep it short.
    ///
    /// Durable: everything that the body has read, before return.
    /// Errors: those of the body; inside another transaction.
    pub fn read<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&Read) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.run_read(body, None)
    }
    fn run_read<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&Read) -> std::result::Result<R, E>,
        ticket: Option<&mut Ticket>,
    ) -> std::result::Result<R, E> {
        let mut raw = ptr::null_mut();
        check(unsafe { sys::fur_begin_ro(self.raw.as_ptr(), &mut raw) })?;
        let tx = Read { raw, heap: self.heap.raw };
        let result = body(&tx);
        let ended = tx.end(ticket);
        self.heap.snapshots.end();
        ended?;
        result
    }
    /// [`Thread::read`], but do not wait until what the body has read is durable: let nothing that
    /// follows from it leave the process before [`Thread::wait`] or [`Heap::durable`].
    pub fn read_with_ticket<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&Read) -> std::result::Result<R, E>,
    ) -> std::result::Result<(R, Ticket), E> {
        let mut ticket = Ticket::NONE;
        self.run_read(body, Some(&mut ticket)).map(|result| (result, ticket))
    }
    /// Run `body` as an update, and commit it.  If the body returns an error, or panics, the update
    /// is rolled back.
    ///
    /// The body may run again, with memory as it was: only its last run counts.
    /// Visible: atomically, before return.  Durable: before return, with everything it has read.
    /// Errors: those of the body; inside another transaction; if the heap is full; if the update
    /// does not fit the log.
    pub fn update<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&mut Update) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        self.run_update(body, None)
    }
    fn run_update<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&mut Update) -> std::result::Result<R, E>,
        ticket: Option<&mut Ticket>,
    ) -> std::result::Result<R, E> {
        let mut raw = ptr::null_mut();
        check(unsafe { sys::fur_begin_update(self.raw.as_ptr(), &mut raw) })?;
        let mut tx = Update { raw, heap: self.heap.raw };
        let result = match body(&mut tx) {
            Ok(result) => tx.commit(ticket).map(|()| result).map_err(E::from),
            Err(error) => {
                drop(tx); // and so rolled back
                Err(error)
            }
        };
        self.heap.snapshots.end();
        result
    }
    /// [`Thread::update`], but return when the update is visible, and before it is durable.  So a
    /// thread that answers many requests waits once for many updates:
    ///
    /// ```
    /// # fn f(me: libfur::Thread, map: libfur::HashMap) -> libfur::Result<()> {
    /// let (_, _) = me.update_with_ticket(|tx| map.put(tx, b"one", b"1"))?;
    /// let (_, newest) = me.update_with_ticket(|tx| map.put(tx, b"two", b"2"))?;
    /// me.wait(newest)?; // both are durable
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Durable: with [`Thread::wait`], [`Heap::durable`] or [`Heap::sync`], or some milliseconds
    /// later.  Updates survive a failure in the order in which they were committed.
    pub fn update_with_ticket<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&mut Update) -> std::result::Result<R, E>,
    ) -> std::result::Result<(R, Ticket), E> {
        let mut ticket = Ticket::NONE;
        self.run_update(body, Some(&mut ticket)).map(|result| (result, ticket))
    }
    /// Wait until the ticket's transaction is durable, and all earlier ones that its thread ended
    /// with a ticket.  The ticket may be another thread's.
    /// Errors: for a ticket of another heap, or of a heap that was closed; inside a transaction; if
    /// the medium has failed.
    pub fn wait(&self, ticket: Ticket) -> Result<()> {
        check(unsafe { sys::fur_wait(self.raw.as_ptr(), ticket.0) }).map(drop)
    }
    /// The hash map of that name, made if there is none.
    /// Errors: if the name belongs to something else; inside a transaction.
    pub fn hash_map(&self, name: &str) -> Result<HashMap<'h>> {
        self.map(name)
    }
    /// The ordered map of that name, made if there is none.
    /// Errors: if the name belongs to something else; inside a transaction.
    pub fn ordered_map(&self, name: &str) -> Result<OrderedMap<'h>> {
        self.map(name)
    }
    /// Forget the name of a map.  The map stays in the heap, for those who have it:
    /// [`Thread::destroy`] frees it as well.  Returns: was there such a name?
    /// Errors: inside a transaction.
    pub fn remove_root(&self, name: &str) -> Result<bool> {
        let name = c_string(name.as_bytes(), "name")?;
        let found = check(unsafe { sys::fur_map_remove_root(self.raw.as_ptr(), name.as_ptr()) })?;
        Ok(found != 0)
    }
    /// Remove the map of that name, with all its entries, and free its room in the heap.
    /// Returns: was there such a name?
    /// Errors: if the name belongs to something else; if the update does not fit the log; inside a
    /// transaction.
    ///
    /// # Safety
    ///
    /// No thread uses a [`Map`] of that name afterwards: other data may be in its place.
    pub unsafe fn destroy(&self, name: &str) -> Result<bool> {
        let name = c_string(name.as_bytes(), "name")?;
        Ok(check(sys::fur_map_destroy_root(self.raw.as_ptr(), name.as_ptr()))? != 0)
    }
    fn map<K: Kind>(&self, name: &str) -> Result<Map<'h, K>> {
        let name = c_string(name.as_bytes(), "name")?;
        let mut raw = ptr::null_mut();
        check(unsafe { sys::fur_map_root(self.raw.as_ptr(), name.as_ptr(), K::NUMBER, &mut raw) })?;
        let heap = self.heap.raw;
        Ok(Map { raw: NonNull::new(raw).expect("a map"), heap, kind: PhantomData })
    }
}

/// A transaction that has ended, and may not be durable yet: see [`Thread::update_with_ticket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what it stands for may not be durable: wait for it, or for a later one"]
pub struct Ticket(sys::fur_ticket);

impl Ticket {
    const NONE: Ticket = Ticket(sys::fur_ticket { source: 0, number: 0 });
}

fn ticket_pointer(ticket: Option<&mut Ticket>) -> *mut sys::fur_ticket {
    ticket.map_or(ptr::null_mut(), |ticket| &mut ticket.0)
}

/// A read-only transaction, as [`Thread::read`] passes it.
pub struct Read {
    raw: *mut sys::fur_ro,
    heap: NonNull<sys::fur_heap>,
}

impl Read {
    fn end(mut self, ticket: Option<&mut Ticket>) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        check(unsafe { sys::fur_end_ro(raw, ticket_pointer(ticket)) }).map(drop)
    }
}
impl Drop for Read {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            unsafe { sys::fur_end_ro(self.raw, ptr::null_mut()) };
        }
    }
}

/// An update, as [`Thread::update`] passes it.
pub struct Update {
    raw: *mut sys::fur_update,
    heap: NonNull<sys::fur_heap>,
}

impl Update {
    fn commit(mut self, ticket: Option<&mut Ticket>) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        check(unsafe { sys::fur_commit(raw, ticket_pointer(ticket)) }).map(drop)
    }
}
impl Drop for Update {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            unsafe { sys::fur_abort(self.raw) };
        }
    }
}

mod sealed {
    use super::*;

    /// What can be read in every transaction, and in a snapshot.
    pub trait Transaction {
        fn heap(&self) -> NonNull<sys::fur_heap>;
        fn size(&self, map: *const sys::fur_map) -> Result<u64>;
        /// A copy of the key's value.  `room`: its expected size; 0: its contents do not matter.
        fn value(
            &self,
            map: *const sys::fur_map,
            key: &[u8],
            room: usize,
        ) -> Result<Option<Vec<u8>>>;
        /// Look for keys.  Safety: each look-up has the address of its key, and of its room.
        unsafe fn look_up(
            &self,
            map: *const sys::fur_map,
            lookups: &mut [sys::fur_map_lookup],
        ) -> c_int;
        /// Copy groups of entries from a place on.  Safety: `to` has room for `bytes`.
        unsafe fn scan_to(
            &self,
            map: *const sys::fur_map,
            place: *mut u64,
            most: usize,
            to: *mut u8,
            bytes: *mut usize,
        ) -> c_int;
        /// Copies of entries from a place on, and the place to go on from.
        fn scan(
            &self,
            map: *const sys::fur_map,
            mut place: u64,
            most: usize,
        ) -> Result<(u64, Vec<OwnedEntry>)> {
            let mut part = vec![0; snapshot::PART];
            loop {
                let (mut bytes, to) = (part.len(), part.as_mut_ptr());
                check(unsafe { self.scan_to(map, &mut place, most, to, &mut bytes) })?;
                if bytes <= part.len() {
                    return Ok((place, snapshot::split(&part[..bytes])));
                }
                part.resize(bytes, 0);
            }
        }
        /// Copies of the keys' values.
        fn values(&self, map: *const sys::fur_map, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
            let mut values = vec![None; keys.len()];
            // The keys that are not looked up yet, each with the room for its value.
            let mut left: Vec<_> = (0..keys.len()).map(|n| (n, VALUE)).collect();
            loop {
                let mut room = vec![0; left.iter().map(|(_, size)| size).sum()];
                let mut free = &mut room[..];
                let mut lookups = Vec::with_capacity(left.len());
                for &(n, size) in &left {
                    let (value, rest) = free.split_at_mut(size);
                    free = rest;
                    lookups.push(sys::fur_map_lookup {
                        key: keys[n].as_ptr(),
                        key_bytes: keys[n].len(),
                        value: value.as_mut_ptr(),
                        room: size,
                        bytes: 0,
                        found: 0,
                    });
                }
                check(unsafe { self.look_up(map, &mut lookups) })?;
                let mut copied = &room[..];
                let mut larger = Vec::new();
                for (&(n, size), found) in left.iter().zip(&lookups) {
                    let (value, rest) = copied.split_at(size);
                    copied = rest;
                    if found.bytes > size {
                        larger.push((n, found.bytes));
                    } else if found.found == 1 {
                        values[n] = Some(value[..found.bytes].to_vec());
                    }
                }
                if larger.is_empty() {
                    return Ok(values);
                }
                left = larger;
            }
        }
        /// A copy of the entry at a place.
        fn entry(
            &self,
            map: *const sys::fur_map,
            place: c_int,
            key: &[u8],
        ) -> Result<Option<OwnedEntry>>;
    }
    /// A transaction that lasts longer than one call.
    pub trait Seek {
        fn heap_of(&self) -> NonNull<sys::fur_heap>;
        unsafe fn size_to(&self, map: *const sys::fur_map, size: *mut u64) -> c_int;
        unsafe fn get_many(
            &self,
            map: *const sys::fur_map,
            lookups: &mut [sys::fur_map_lookup],
        ) -> c_int;
        unsafe fn seek(
            &self,
            map: *const sys::fur_map,
            place: c_int,
            key: &[u8],
            it: *mut sys::fur_map_iterator,
        ) -> c_int;
        unsafe fn scan_in(
            &self,
            map: *const sys::fur_map,
            place: *mut u64,
            most: usize,
            to: *mut u8,
            bytes: *mut usize,
        ) -> c_int;
        fn find(
            &self,
            map: *const sys::fur_map,
            place: c_int,
            key: &[u8],
        ) -> Result<Option<sys::fur_map_iterator>> {
            let mut it = sys::fur_map_iterator { opaque: [0; 128] };
            let found = unsafe { self.seek(map, place, key, &mut it) };
            Ok(if check(found)? == 1 { Some(it) } else { None })
        }
    }
    impl<T: Seek> Transaction for T {
        fn heap(&self) -> NonNull<sys::fur_heap> {
            self.heap_of()
        }
        fn size(&self, map: *const sys::fur_map) -> Result<u64> {
            let mut size = 0;
            check(unsafe { self.size_to(map, &mut size) })?;
            Ok(size)
        }
        fn value(
            &self,
            map: *const sys::fur_map,
            key: &[u8],
            room: usize,
        ) -> Result<Option<Vec<u8>>> {
            let value = |it| if room == 0 { Vec::new() } else { copy(&it, sys::fur_map_value) };
            Ok(self.find(map, sys::FUR_MAP_AT, key)?.map(value))
        }
        unsafe fn look_up(
            &self,
            map: *const sys::fur_map,
            lookups: &mut [sys::fur_map_lookup],
        ) -> c_int {
            self.get_many(map, lookups)
        }
        unsafe fn scan_to(
            &self,
            map: *const sys::fur_map,
            place: *mut u64,
            most: usize,
            to: *mut u8,
            bytes: *mut usize,
        ) -> c_int {
            self.scan_in(map, place, most, to, bytes)
        }
        fn entry(
            &self,
            map: *const sys::fur_map,
            place: c_int,
            key: &[u8],
        ) -> Result<Option<OwnedEntry>> {
            let entry = |it| (copy(&it, sys::fur_map_key), copy(&it, sys::fur_map_value));
            Ok(self.find(map, place, key)?.map(entry))
        }
    }
    macro_rules! transaction {
        ($type:ty, $size:path, $get_many:path, $seek:path, $scan:path) => {
            impl Seek for $type {
                fn heap_of(&self) -> NonNull<sys::fur_heap> {
                    self.heap
                }
                unsafe fn size_to(&self, map: *const sys::fur_map, size: *mut u64) -> c_int {
                    $size(self.raw, map, size)
                }
                unsafe fn get_many(
                    &self,
                    map: *const sys::fur_map,
                    lookups: &mut [sys::fur_map_lookup],
                ) -> c_int {
                    $get_many(self.raw, map, lookups.as_mut_ptr(), lookups.len())
                }
                unsafe fn seek(
                    &self,
                    map: *const sys::fur_map,
                    place: c_int,
                    key: &[u8],
                    it: *mut sys::fur_map_iterator,
                ) -> c_int {
                    $seek(self.raw, map, place, key.as_ptr(), key.len(), it)
                }
                unsafe fn scan_in(
                    &self,
                    map: *const sys::fur_map,
                    place: *mut u64,
                    most: usize,
                    to: *mut u8,
                    bytes: *mut usize,
                ) -> c_int {
                    $scan(self.raw, map, place, most, to, bytes)
                }
            }
        };
    }
    transaction!(
        Read,
        sys::fur_map_size_ro,
        sys::fur_map_get_many_ro,
        sys::fur_map_seek_ro,
        sys::fur_map_scan_ro
    );
    transaction!(
        Update,
        sys::fur_map_size_update,
        sys::fur_map_get_many_update,
        sys::fur_map_seek_update,
        sys::fur_map_scan_update
    );
    pub trait Kind {
        const NUMBER: c_int;
    }
    impl Kind for Hash {
        const NUMBER: c_int = sys::FUR_MAP_HASH;
    }
    impl Kind for Ordered {
        const NUMBER: c_int = sys::FUR_MAP_ORDERED;
    }
}
use sealed::{Kind, Seek, Transaction};

/// The kind of a [`HashMap`].
#[derive(Debug, Clone, Copy)]
pub enum Hash {}
/// The kind of an [`OrderedMap`].
#[derive(Debug, Clone, Copy)]
pub enum Ordered {}

/// A map from bytes to bytes in the heap `'h`.  Copy it as you like: it is the map's address.
#[derive(Debug)]
pub struct Map<'h, K: Kind> {
    raw: NonNull<sys::fur_map>,
    heap: NonNull<sys::fur_heap>,
    kind: PhantomData<(&'h Heap, K)>,
}
/// A map without order.
pub type HashMap<'h> = Map<'h, Hash>;
/// A map whose keys are in the order of their bytes.
pub type OrderedMap<'h> = Map<'h, Ordered>;

impl<K: Kind> Clone for Map<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Kind> Copy for Map<'_, K> {}
// Safety: all access is by transactions.
unsafe impl<K: Kind> Send for Map<'_, K> {}
unsafe impl<K: Kind> Sync for Map<'_, K> {}

impl<K: Kind> Map<'_, K> {
    /// Another heap's transaction would not keep this map's memory as it is.
    fn check_heap(&self, heap: NonNull<sys::fur_heap>) -> Result<()> {
        if heap == self.heap {
            return Ok(());
        }
        let message = "the map is in another heap than the transaction: use that heap's thread";
        Err(Error::new(code::EINVAL, message))
    }
    fn seek(&self, tx: &Read, place: c_int, key: &[u8]) -> Result<Option<sys::fur_map_iterator>> {
        self.check_heap(tx.heap())?;
        tx.find(self.raw.as_ptr(), place, key)
    }
    /// How many entries are there?  In updates call it only if you must: insertions store to the
    /// words that it reads.
    pub fn len<T: Transaction>(&self, tx: &T) -> Result<u64> {
        self.check_heap(tx.heap())?;
        tx.size(self.raw.as_ptr())
    }
    /// Has the map no entries?
    pub fn is_empty<T: Transaction>(&self, tx: &T) -> Result<bool> {
        Ok(self.len(tx)? == 0)
    }
    /// Is there such a key?
    pub fn contains_key<T: Transaction>(&self, tx: &T, key: &[u8]) -> Result<bool> {
        self.check_heap(tx.heap())?;
        Ok(tx.value(self.raw.as_ptr(), key, 0)?.is_some())
    }
    /// The key's value, where it lies in the heap.
    pub fn get<'t>(&self, tx: &'t Read, key: &[u8]) -> Result<Option<&'t [u8]>> {
        Ok(self.seek(tx, sys::FUR_MAP_AT, key)?.map(|it| view(tx, &it).1))
    }
    /// A copy of the key's value.
    pub fn get_copy<T: Transaction>(&self, tx: &T, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_heap(tx.heap())?;
        tx.value(self.raw.as_ptr(), key, VALUE)
    }
    /// Copies of the values of many keys, in the order of `keys`; also for updates and snapshots.
    /// It is one call of the library for all of up to 256 bytes, and one for those that are larger:
    /// faster than [`Map::get_copy`] for each key, most of all in a map that is larger than the
    /// processor's caches.
    ///
    /// ```
    /// # fn f(me: libfur::Thread, stock: libfur::HashMap) -> libfur::Result<()> {
    /// let found = me.read(|tx| stock.get_many(tx, &["nuts", "figs"]))?;
    /// if let [Some(nuts), None] = &found[..] {
    ///     println!("{} bytes about nuts, and no figs", nuts.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many<T: Transaction, B: AsRef<[u8]>>(
        &self,
        tx: &T,
        keys: &[B],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_heap(tx.heap())?;
        let keys: Vec<_> = keys.iter().map(AsRef::as_ref).collect();
        tx.values(self.raw.as_ptr(), &keys)
    }
    fn add(&self, adder: Adder, tx: &mut Update, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_heap(tx.heap)?;
        let (map, k, v) = (self.raw.as_ptr(), key.as_ptr(), value.as_ptr());
        Ok(check(unsafe { adder(tx.raw, map, k, key.len(), v, value.len()) })? == 1)
    }
    /// Give the key this value.  Returns: was the key added?
    pub fn put(&self, tx: &mut Update, key: &[u8], value: &[u8]) -> Result<bool> {
        self.add(sys::fur_map_put, tx, key, value)
    }
    /// Add the key with this value, unless the key is there.  Returns: was it added?
    pub fn insert(&self, tx: &mut Update, key: &[u8], value: &[u8]) -> Result<bool> {
        self.add(sys::fur_map_insert, tx, key, value)
    }
    /// A copy of the key's value; if there is none, of `value`, which it then has.
    pub fn get_or_insert(&self, tx: &mut Update, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        if self.insert(tx, key, value)? {
            return Ok(value.to_vec());
        }
        let failed = || Error::new(code::EABORTED, "the update has failed before");
        self.get_copy(tx, key)?.ok_or_else(failed)
    }
    /// Remove the key and its value.  Returns: was it there?
    pub fn remove(&self, tx: &mut Update, key: &[u8]) -> Result<bool> {
        self.check_heap(tx.heap)?;
        let (map, k) = (self.raw.as_ptr(), key.as_ptr());
        let removed = unsafe { sys::fur_map_remove(tx.raw, map, k, key.len()) };
        Ok(check(removed)? == 1)
    }
    /// Keep the entries for which `keep` returns true, and remove the others.  Returns how many it
    /// has removed.  It may ask about an entry again that it has kept.
    ///
    /// ```
    /// # fn f(me: libfur::Thread, stock: libfur::HashMap) -> libfur::Result<()> {
    /// let sold_out = me.update(|tx| stock.retain(tx, |_, number| number != b"0"))?;
    /// # let _ = sold_out;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: if the update does not fit the log; then call [`Map::retain_in_parts`].
    pub fn retain(&self, tx: &mut Update, keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64> {
        self.check_heap(tx.heap)?;
        let map = self.raw.as_ptr();
        remove_unless(keep, |which, arg, removed| unsafe {
            sys::fur_map_remove_if(tx.raw, map, which, arg, removed)
        })
    }
    /// [`Map::retain`] for a map of any size, in several updates: others see it shrink.  What they
    /// add meanwhile may be removed or not.
    ///
    /// Durable: what is removed so far, with each update.  If `keep` panics, only the last of them
    /// is rolled back.
    /// Errors: inside a transaction; those of [`Thread::update`].
    pub fn retain_in_parts(
        &self,
        me: &Thread<'_>,
        keep: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<u64> {
        self.check_heap(me.heap.raw)?;
        let (me, map) = (me.raw.as_ptr(), self.raw.as_ptr());
        remove_unless(keep, |which, arg, removed| unsafe {
            sys::fur_map_remove_if_in_parts(me, map, which, arg, removed)
        })
    }
    /// Remove all entries.  If the update does not fit the log, call [`Map::clear_in_parts`].
    pub fn clear(&self, tx: &mut Update) -> Result<()> {
        self.check_heap(tx.heap)?;
        check(unsafe { sys::fur_map_clear(tx.raw, self.raw.as_ptr()) }).map(drop)
    }
    /// Remove all entries of a map of any size, in several updates: others see it shrink, and what
    /// they add meanwhile is removed as well.
    /// Errors: inside a transaction; those of [`Thread::update`].
    pub fn clear_in_parts(&self, me: &Thread<'_>) -> Result<()> {
        self.check_heap(me.heap.raw)?;
        check(unsafe { sys::fur_map_clear_in_parts(me.raw.as_ptr(), self.raw.as_ptr()) }).map(drop)
    }
    /// All entries, where they lie in the heap; of an ordered map in the order of the keys.
    pub fn iter<'t>(&self, tx: &'t Read) -> Result<Iter<'t>> {
        Ok(Iter { at: self.seek(tx, sys::FUR_MAP_FIRST, b"")?, tx })
    }
}

impl HashMap<'_> {
    /// A walk in parts, from one process to the next if need be, as SCAN of Redis: copies of some
    /// entries from a place on, about `most` of them, and the place to go on from.  A walk begins
    /// at 0, and is complete when that is 0 again.  Also for updates and snapshots.
    ///
    /// An entry that is there all the time is returned at least once, however the map changes
    /// between the calls; again, if the map shrinks.  Any number is a place, and means the same in
    /// each process that opens the heap.  In an [`OrderedMap`] the last key is such a place: see
    /// [`Map::range_from`].
    ///
    /// ```
    /// # fn f(me: libfur::Thread, stock: libfur::HashMap) -> libfur::Result<()> {
    /// let mut place = 0;
    /// loop {
    ///     let (next, entries) = me.read(|tx| stock.scan(tx, place, 100))?;
    ///     for (name, number) in entries {
    ///         println!("{:?} {:?}", name, number);
    ///     }
    ///     place = next;
    ///     if place == 0 {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<T: Transaction>(
        &self,
        tx: &T,
        place: u64,
        most: usize,
    ) -> Result<(u64, Vec<OwnedEntry>)> {
        self.check_heap(tx.heap())?;
        tx.scan(self.raw.as_ptr(), place, most)
    }
}

impl OrderedMap<'_> {
    /// The entries whose keys are not smaller than `start`, in order.
    pub fn range_from<'t>(&self, tx: &'t Read, start: &[u8]) -> Result<Iter<'t>> {
        Ok(Iter { at: self.seek(tx, sys::FUR_MAP_FROM, start)?, tx })
    }
    /// Remove the entries whose keys are not smaller than `start`, and smaller than `end`; without
    /// an end, up to the last one.  Returns how many.
    /// Errors: if the update does not fit the log; then call [`Map::remove_range_in_parts`].
    pub fn remove_range(&self, tx: &mut Update, start: &[u8], end: Option<&[u8]>) -> Result<u64> {
        self.check_heap(tx.heap)?;
        let (range, mut removed) = (range_of(start, end), 0);
        let map = self.raw.as_ptr();
        check(unsafe { sys::fur_map_remove_range(tx.raw, map, &range, &mut removed) })?;
        Ok(removed)
    }
    /// [`Map::remove_range`] for a range of any size, in several updates: others see it shrink, and
    /// what they add meanwhile may be removed as well.
    ///
    /// Durable: what is removed so far, with each update.
    /// Errors: inside a transaction; those of [`Thread::update`].
    pub fn remove_range_in_parts(
        &self,
        me: &Thread<'_>,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<u64> {
        self.check_heap(me.heap.raw)?;
        let (range, mut removed) = (range_of(start, end), 0);
        let (me, map) = (me.raw.as_ptr(), self.raw.as_ptr());
        check(unsafe { sys::fur_map_remove_range_in_parts(me, map, &range, &mut removed) })?;
        Ok(removed)
    }
    /// The entry with the smallest key.
    pub fn first<'t>(&self, tx: &'t Read) -> Result<Option<Entry<'t>>> {
        Ok(self.seek(tx, sys::FUR_MAP_FIRST, b"")?.map(|it| view(tx, &it)))
    }
    /// The entry with the largest key.
    pub fn last<'t>(&self, tx: &'t Read) -> Result<Option<Entry<'t>>> {
        Ok(self.seek(tx, sys::FUR_MAP_LAST, b"")?.map(|it| view(tx, &it)))
    }
    /// A copy of the first entry whose key is not smaller than `start`; also for updates and
    /// snapshots.
    pub fn first_from<T: Transaction>(&self, tx: &T, start: &[u8]) -> Result<Option<OwnedEntry>> {
        self.check_heap(tx.heap())?;
        tx.entry(self.raw.as_ptr(), sys::FUR_MAP_FROM, start)
    }
    /// A copy of the entry with the largest key; also for updates and snapshots.
    pub fn last_copy<T: Transaction>(&self, tx: &T) -> Result<Option<OwnedEntry>> {
        self.check_heap(tx.heap())?;
        tx.entry(self.raw.as_ptr(), sys::FUR_MAP_LAST, b"")
    }
}

fn range_of(start: &[u8], end: Option<&[u8]>) -> sys::fur_map_range {
    sys::fur_map_range {
        first: start.as_ptr(),
        first_bytes: start.len(),
        last: end.map_or(ptr::null(), |key| key.as_ptr()),
        last_bytes: end.map_or(0, |key| key.len()),
    }
}

/// What the predicate of a removal knows.
struct Asking<F> {
    keep: F,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

/// Call a function that removes what its predicate says.  A panic of `keep` does not unwind through
/// the library.
fn remove_unless<F: FnMut(&[u8], &[u8]) -> bool>(
    keep: F,
    remove: impl FnOnce(sys::Which, *mut c_void, *mut u64) -> c_int,
) -> Result<u64> {
    unsafe extern "C" fn goes<F: FnMut(&[u8], &[u8]) -> bool>(
        it: *const sys::fur_map_iterator,
        arg: *mut c_void,
    ) -> c_int {
        // Safety: the library passes on what it has got below.
        let (it, asking) = (&*it, &mut *(arg as *mut Asking<F>));
        let keep = &mut asking.keep;
        let kept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            keep(&copy(it, sys::fur_map_key), &copy(it, sys::fur_map_value))
        }));
        match kept {
            Ok(kept) => !kept as c_int,
            Err(panic) => {
                asking.panic = Some(panic);
                code::EABORTED
            }
        }
    }
    let (mut asking, mut removed) = (Asking { keep, panic: None }, 0);
    let result = remove(goes::<F>, &mut asking as *mut _ as *mut c_void, &mut removed);
    if let Some(panic) = asking.panic {
        std::panic::resume_unwind(panic);
    }
    check(result)?;
    Ok(removed)
}

/// The size that a value has, as we expect before we know it.
const VALUE: usize = 256;

/// Key and value of an entry, where they lie in the heap.
pub type Entry<'t> = (&'t [u8], &'t [u8]);

/// The entry at which an iterator is.
fn view<'t>(_: &'t Read, it: &sys::fur_map_iterator) -> Entry<'t> {
    let empty = || sys::fur_map_bytes { at: ptr::null(), bytes: 0 };
    let (mut key, mut value) = (empty(), empty());
    let found = unsafe { sys::fur_map_view(it, &mut key, &mut value) };
    assert_eq!(found, 1, "the iterator is at an entry");
    // Safety: updates wait for the transaction, so nothing stores to what it can reach, and blocks
    // stay where they are, as long as it is open: for 't, and longer.
    let slice =
        |b: sys::fur_map_bytes| unsafe { std::slice::from_raw_parts(b.at as *const u8, b.bytes) };
    (slice(key), slice(value))
}

type Adder = unsafe extern "C" fn(
    *mut sys::fur_update,
    *mut sys::fur_map,
    *const u8,
    usize,
    *const u8,
    usize,
) -> c_int;
type Copier = unsafe extern "C" fn(*const sys::fur_map_iterator, *mut u8, usize) -> usize;

fn copy(it: &sys::fur_map_iterator, copier: Copier) -> Vec<u8> {
    let size = unsafe { copier(it, ptr::null_mut(), 0) };
    let mut bytes = vec![0; size];
    unsafe { copier(it, bytes.as_mut_ptr(), size) };
    bytes
}

/// The entries of a map: see [`Map::iter`].
pub struct Iter<'t> {
    at: Option<sys::fur_map_iterator>,
    tx: &'t Read,
}

impl<'t> Iterator for Iter<'t> {
    type Item = Entry<'t>;

    fn next(&mut self) -> Option<Entry<'t>> {
        let it = self.at.as_mut()?;
        let entry = view(self.tx, it);
        if unsafe { sys::fur_map_next(it) } != 1 {
            self.at = None;
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPTIONS in the environment: a program that prints where C has the members.
    #[test]
    fn options_are_those_of_c() {
        let program = std::env::var("OPTIONS").expect("OPTIONS: the program of options.c");
        let output = std::process::Command::new(program).output().expect("it runs");
        let there = String::from_utf8(output.stdout).expect("text");
        let options = Options::new();
        let base = &options.0 as *const _ as usize;
        macro_rules! lines {
            ($($field:ident)*) => {
                vec![$(format!("{} {}", stringify!($field),
                        &options.0.$field as *const _ as usize - base)),*]
            };
        }
        let mut here = lines!(size heap_bytes log_bytes ring_slots max_threads address isolation htm
            pm open phase_times reader_report_ns
            reader_report reader_report_arg dram_bytes file_mode log log_arg async_ms max_bytes debug
            snapshot_bytes ack ack_patience_ms);
        here.push(format!("sizeof {}", std::mem::size_of::<sys::fur_options>()));
        here.push(format!("iterator {}", std::mem::size_of::<sys::fur_map_iterator>()));
        here.push(format!("ticket {}", std::mem::size_of::<sys::fur_ticket>()));
        here.push(format!("lookup {}", std::mem::size_of::<sys::fur_map_lookup>()));
        macro_rules! lookup {
            ($($field:ident)*) => {
                $(here.push(format!("lookup.{} {}", stringify!($field),
                        std::mem::offset_of!(sys::fur_map_lookup, $field)));)*
            };
        }
        lookup!(key key_bytes value room bytes found);
        macro_rules! offsets {
            ($prefix:literal $type:ident: $($field:ident)*) => {
                $(here.push(format!("{}.{} {}", $prefix, stringify!($field),
                        std::mem::offset_of!(sys::$type, $field)));)*
                here.push(format!("{} {}", $prefix, std::mem::size_of::<sys::$type>()));
            };
        }
        offsets!("follow" fur_follow_options: size settings log log_arg patience_ms);
        offsets!("state" fur_follow_state: size lineage durts term frame node own_node unread
            caught_up_ns heard_ns silent_ns heir follows promoted error message);
        offsets!("token" fur_token: durts);
        macro_rules! codes {
            ($($name:ident)*) => {
                $(here.push(format!("FUR_{} {}", stringify!($name), code::$name));)*
            };
        }
        codes!(EINVAL ESYS ENOENT EEXIST ENOTHEAP EVERSION ECORRUPT EBUSY EADDRESS ENOSPC ETHREADS ENESTED ENOTX ERANGE ETOOBIG EABORTED EIO ENOMEM EFREE EFORK EREADONLY ETOOOLD EBEHIND EFENCED EINDOUBT ELOST EGROUP);
        here.push(format!("FUR_OPEN_OR_CREATE {}", sys::FUR_OPEN_OR_CREATE));
        here.push(format!("info.heap_bytes {}", std::mem::offset_of!(sys::fur_info, heap_bytes)));
        here.push(format!("FUR_PM_SYNC {}", Pm::Sync as c_int));
        here.push(format!("FUR_ACK_REPLICATED {}", Ack::Replicated as c_int));
        here.push(format!("FUR_HTM_NONE {}", Htm::None as c_int));
        here.push(format!("FUR_HTM_POWER {}", Htm::Power as c_int));
        here.push(format!("FUR_SNAPSHOT {}", Isolation::Snapshot as c_int));
        here.push(format!("FUR_LOG_WARNING {}", Level::Warning as c_int));
        here.push(format!("FUR_LOG_ERROR {}", Level::Error as c_int));
        here.push(format!("FUR_MAP_BEHIND {}", sys::FUR_MAP_BEHIND));
        for line in here {
            assert!(there.lines().any(|l| l == line), "C has no '{}'", line);
        }
    }
}
