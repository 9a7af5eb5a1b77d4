// SPDX-License-Identifier: BSD-3-Clause
//! Snapshots: one state of the heap, to be read for as long as the program likes.

use super::sealed::{Kind, Transaction};
use super::{check, code, sys, Heap, Map, OrderedMap, Result, Thread};
use std::os::raw::c_int;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

/// Room for the entries that one call copies.
pub(crate) const PART: usize = 1 << 16;
/// The same, for one entry.
const ENTRY: usize = 512;

/// One state of a heap, as [`Thread::snapshot`] returns it.
///
/// No update waits for it, and none that comes later changes what it shows.  It is for reads that
/// take long: reports, exports, checks.  Each look-up and each step of an iteration is a call of
/// its own, which begins no transaction.  So the thread may update the heap between two of them:
///
/// ```
/// # fn f(me: libfur::Thread, stock: libfur::OrderedMap) -> libfur::Result<()> {
/// let then = me.snapshot()?;
/// for entry in stock.iter_copy(then.view(&me))? {
///     let (name, number) = entry?;
///     me.update(|tx| stock.put(tx, &name, b"0"))?; // `then` still has the number
///     println!("{:?} {:?}", name, number);
/// }
/// # Ok(())
/// # }
/// ```
///
/// All that it shows is durable.  It costs memory for what updates overwrite meanwhile, up to
/// [`Options::snapshot_bytes`](crate::Options::snapshot_bytes).  If that is not enough, libfur
/// revokes the oldest snapshot, whose reads return [`code::ETOOOLD`] from then on: drop it.
///
/// Dropping it ends it; inside a transaction, when that has ended.  One that is forgotten
/// ([`std::mem::forget`]) prevents [`Heap::close`].  It does not outlive its heap:
///
/// ```compile_fail,E0505
/// # fn f(heap: libfur::Heap) -> libfur::Result<()> {
/// let then = heap.register()?.snapshot()?;
/// drop(heap);
/// drop(then);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Snapshot<'h> {
    raw: NonNull<sys::fur_snapshot>,
    heap: &'h Heap,
}

// Safety: libfur lets any thread read and end a snapshot, with a registration of its own.
unsafe impl Send for Snapshot<'_> {}
unsafe impl Sync for Snapshot<'_> {}

impl<'h> Thread<'h> {
    /// The state of the heap at this instant, to be read for as long as you like.  It waits for an
    /// open update of another thread, and until what it shows is durable.
    ///
    /// Errors: inside a transaction; if 64 are open; if there is no memory.
    pub fn snapshot(&self) -> Result<Snapshot<'h>> {
        let mut raw = ptr::null_mut();
        check(unsafe { sys::fur_snapshot_begin(self.raw.as_ptr(), &mut raw) })?;
        Ok(Snapshot { raw: NonNull::new(raw).expect("a snapshot"), heap: self.heap })
    }
}

impl<'h> Snapshot<'h> {
    /// The snapshot, for the functions of maps that take a transaction.  Several threads may read
    /// one at a time, each with its own registration.
    ///
    /// They return [`code::ENESTED`] while the thread has a transaction open, [`code::ETOOOLD`] if
    /// the snapshot is revoked, and [`code::EINVAL`] for a map that was made later.
    pub fn view<'v>(&'v self, me: &'v Thread<'h>) -> View<'v> {
        View { snapshot: self, me }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let result = unsafe { sys::fur_snapshot_end(self.raw.as_ptr()) };
        if result == code::ENESTED {
            self.heap.snapshots.add(self.raw);
        }
    }
}

/// The snapshots that were dropped inside a transaction.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    any: AtomicBool,
    all: Mutex<Vec<Raw>>,
}
#[derive(Debug)]
struct Raw(NonNull<sys::fur_snapshot>);
// Safety: any thread may end a snapshot.
unsafe impl Send for Raw {}

impl Dropped {
    fn add(&self, raw: NonNull<sys::fur_snapshot>) {
        self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Raw(raw));
        self.any.store(true, Ordering::Release);
    }
    /// End them.  Those that this thread cannot end are left to a later call.
    pub(crate) fn end(&self) {
        if !self.any.swap(false, Ordering::Acquire) {
            return;
        }
        // Without the lock: an end waits for other threads' updates, in which one may be dropped.
        let all =
            std::mem::take(&mut *self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for raw in all {
            if unsafe { sys::fur_snapshot_end(raw.0.as_ptr()) } == code::ENESTED {
                self.add(raw.0);
            }
        }
    }
}

/// A [`Snapshot`] that a thread reads.  Copy it as you like.
#[derive(Clone, Copy)]
pub struct View<'v> {
    snapshot: &'v Snapshot<'v>,
    me: &'v Thread<'v>,
}

/// Copies of the key and the value of an entry.
pub type OwnedEntry = (Vec<u8>, Vec<u8>);

impl View<'_> {
    /// Copies of the next entries, and whether there are more.
    fn entries(
        &self,
        map: *const sys::fur_map,
        place: c_int,
        key: &[u8],
        room: usize,
    ) -> Result<(Vec<OwnedEntry>, bool)> {
        let (me, snapshot) = (self.me.raw.as_ptr(), self.snapshot.raw.as_ptr());
        let mut part = vec![0; room];
        loop {
            let (mut bytes, to) = (part.len(), part.as_mut_ptr());
            let more = check(unsafe {
                let (key, key_bytes) = (key.as_ptr(), key.len());
                sys::fur_map_copy_at(me, snapshot, map, place, key, key_bytes, to, &mut bytes)
            })?;
            if bytes <= part.len() {
                return Ok((split(&part[..bytes]), more == 1));
            }
            part.resize(bytes, 0);
        }
    }
}

/// The entries that fur_map_copy_at(), or fur_map_scan(), has copied.
pub(crate) fn split(mut part: &[u8]) -> Vec<OwnedEntry> {
    fn number(bytes: &[u8]) -> usize {
        u32::from_ne_bytes(bytes.try_into().expect("four bytes")) as usize
    }
    let mut entries = Vec::new();
    while !part.is_empty() {
        let (sizes, rest) = part.split_at(8);
        let (key, rest) = rest.split_at(number(&sizes[..4]));
        let (value, rest) = rest.split_at(number(&sizes[4..]));
        entries.push((key.to_vec(), value.to_vec()));
        part = rest;
    }
    entries
}

impl Transaction for View<'_> {
    fn heap(&self) -> NonNull<sys::fur_heap> {
        self.snapshot.heap.raw
    }
    fn size(&self, map: *const sys::fur_map) -> Result<u64> {
        let (me, snapshot, mut size) = (self.me.raw.as_ptr(), self.snapshot.raw.as_ptr(), 0);
        check(unsafe { sys::fur_map_size_at(me, snapshot, map, &mut size) })?;
        Ok(size)
    }
    fn value(&self, map: *const sys::fur_map, key: &[u8], room: usize) -> Result<Option<Vec<u8>>> {
        let (me, snapshot) = (self.me.raw.as_ptr(), self.snapshot.raw.as_ptr());
        let mut value = vec![0; room];
        loop {
            let (mut bytes, to) = (value.len(), value.as_mut_ptr());
            let found = check(unsafe {
                let (key, key_bytes) = (key.as_ptr(), key.len());
                sys::fur_map_get_at(me, snapshot, map, key, key_bytes, to, &mut bytes)
            })?;
            let fits = bytes <= value.len() || room == 0;
            value.resize(bytes, 0);
            if fits {
                return Ok(if found == 1 { Some(value) } else { None });
            }
        }
    }
    unsafe fn look_up(
        &self,
        map: *const sys::fur_map,
        lookups: &mut [sys::fur_map_lookup],
    ) -> c_int {
        let (me, snapshot) = (self.me.raw.as_ptr(), self.snapshot.raw.as_ptr());
        sys::fur_map_get_many_at(me, snapshot, map, lookups.as_mut_ptr(), lookups.len())
    }
    unsafe fn scan_to(
        &self,
        map: *const sys::fur_map,
        place: *mut u64,
        most: usize,
        to: *mut u8,
        bytes: *mut usize,
    ) -> c_int {
        let (me, snapshot) = (self.me.raw.as_ptr(), self.snapshot.raw.as_ptr());
        sys::fur_map_scan_at(me, snapshot, map, place, most, to, bytes)
    }
    fn entry(
        &self,
        map: *const sys::fur_map,
        place: c_int,
        key: &[u8],
    ) -> Result<Option<OwnedEntry>> {
        Ok(self.entries(map, place, key, ENTRY)?.0.into_iter().next())
    }
}

/// Copies of a map's entries in a snapshot: see [`Map::iter_copy`].  After an error it ends.
pub struct Copies<'v> {
    view: View<'v>,
    map: NonNull<sys::fur_map>,
    part: std::vec::IntoIter<OwnedEntry>,
    /// The last key of the part.
    last: Vec<u8>,
    more: bool,
}

impl<'v> Copies<'v> {
    fn new<K: Kind>(map: &Map<'_, K>, view: View<'v>, place: c_int, key: &[u8]) -> Result<Self> {
        map.check_heap(view.heap())?;
        let part = Vec::new().into_iter();
        let mut copies = Copies { view, map: map.raw, part, last: Vec::new(), more: true };
        copies.fill(place, key)?;
        Ok(copies)
    }
    fn fill(&mut self, place: c_int, key: &[u8]) -> Result<()> {
        self.more = false;
        let (part, more) = self.view.entries(self.map.as_ptr(), place, key, PART)?;
        self.last = part.last().map_or_else(Vec::new, |(key, _)| key.clone());
        self.part = part.into_iter();
        self.more = more;
        Ok(())
    }
}

impl Iterator for Copies<'_> {
    type Item = Result<OwnedEntry>;

    fn next(&mut self) -> Option<Result<OwnedEntry>> {
        if self.part.len() == 0 && self.more {
            let last = std::mem::take(&mut self.last);
            if let Err(error) = self.fill(sys::FUR_MAP_BEHIND, &last) {
                return Some(Err(error));
            }
        }
        self.part.next().map(Ok)
    }
}

impl<K: Kind> Map<'_, K> {
    /// Copies of all entries that the map had at the snapshot; of an ordered map in the order of
    /// the keys.  It reads some at a time, and between two steps the thread may do anything.
    pub fn iter_copy<'v>(&self, view: View<'v>) -> Result<Copies<'v>> {
        Copies::new(self, view, sys::FUR_MAP_FIRST, b"")
    }
}

impl OrderedMap<'_> {
    /// Copies of the entries whose keys are not smaller than `start`, in order: [`Map::iter_copy`].
    pub fn range_from_copy<'v>(&self, view: View<'v>, start: &[u8]) -> Result<Copies<'v>> {
        Copies::new(self, view, sys::FUR_MAP_FROM, start)
    }
}
