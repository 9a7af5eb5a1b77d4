// SPDX-License-Identifier: BSD-3-Clause
//! Sets: maps whose values are empty.

use super::sealed::{Kind, Transaction};
use super::{Copies, Hash, Iter, Map, Ordered, OwnedEntry, Read, Result, Thread, Update, View};

/// A set of bytes in the heap `'h`, as [`Thread::hash_set`] and [`Thread::ordered_set`] return it.
/// Copy it as you like: it is the set's address.
///
/// In the heap it is a map whose values are empty; C and Python find it as such.
///
/// ```
/// # fn f(me: libfur::Thread) -> libfur::Result<()> {
/// let seen = me.hash_set("seen")?;
/// let is_new = me.update(|tx| seen.insert(tx, b"ada"))?;
/// assert!(me.read(|tx| seen.contains(tx, b"ada"))?);
/// # let _ = is_new;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Set<'h, K: Kind>(Map<'h, K>);
/// A set without order.
pub type HashSet<'h> = Set<'h, Hash>;
/// A set whose keys are in the order of their bytes.
pub type OrderedSet<'h> = Set<'h, Ordered>;

impl<K: Kind> Clone for Set<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Kind> Copy for Set<'_, K> {}

impl<'h> Thread<'h> {
    /// The set of that name, made if there is none.
    /// Errors: if the name belongs to something else; inside a transaction.
    pub fn hash_set(&self, name: &str) -> Result<HashSet<'h>> {
        Ok(Set(self.hash_map(name)?))
    }
    /// The set of that name with its keys in order, made if there is none.
    /// Errors: if the name belongs to something else; inside a transaction.
    pub fn ordered_set(&self, name: &str) -> Result<OrderedSet<'h>> {
        Ok(Set(self.ordered_map(name)?))
    }
}

fn keys(entries: Vec<OwnedEntry>) -> Vec<Vec<u8>> {
    entries.into_iter().map(|(key, _)| key).collect()
}

impl<K: Kind> Set<'_, K> {
    /// How many keys are there?  See [`Map::len`].
    pub fn len<T: Transaction>(&self, tx: &T) -> Result<u64> {
        self.0.len(tx)
    }
    /// Has the set no keys?
    pub fn is_empty<T: Transaction>(&self, tx: &T) -> Result<bool> {
        self.0.is_empty(tx)
    }
    /// Is the key in the set?
    pub fn contains<T: Transaction>(&self, tx: &T, key: &[u8]) -> Result<bool> {
        self.0.contains_key(tx, key)
    }
    /// For each key, in their order: is it in the set?  In one call, as [`Map::get_many`].
    pub fn contains_many<T: Transaction, B: AsRef<[u8]>>(
        &self,
        tx: &T,
        keys: &[B],
    ) -> Result<Vec<bool>> {
        Ok(self.0.get_many(tx, keys)?.iter().map(Option::is_some).collect())
    }
    /// Add the key, unless it is there.  Returns: was it added?
    pub fn insert(&self, tx: &mut Update, key: &[u8]) -> Result<bool> {
        self.0.insert(tx, key, b"")
    }
    /// Remove the key.  Returns: was it there?
    pub fn remove(&self, tx: &mut Update, key: &[u8]) -> Result<bool> {
        self.0.remove(tx, key)
    }
    /// Keep the keys for which `keep` returns true, and remove the others: see [`Map::retain`].
    pub fn retain(&self, tx: &mut Update, mut keep: impl FnMut(&[u8]) -> bool) -> Result<u64> {
        self.0.retain(tx, |key, _| keep(key))
    }
    /// [`Set::retain`] in several updates: see [`Map::retain_in_parts`].
    pub fn retain_in_parts(
        &self,
        me: &Thread<'_>,
        mut keep: impl FnMut(&[u8]) -> bool,
    ) -> Result<u64> {
        self.0.retain_in_parts(me, |key, _| keep(key))
    }
    /// Remove all keys: see [`Map::clear`].
    pub fn clear(&self, tx: &mut Update) -> Result<()> {
        self.0.clear(tx)
    }
    /// Remove all keys in several updates: see [`Map::clear_in_parts`].
    pub fn clear_in_parts(&self, me: &Thread<'_>) -> Result<()> {
        self.0.clear_in_parts(me)
    }
    /// All keys, where they lie in the heap; of an ordered set in their order.
    pub fn iter<'t>(&self, tx: &'t Read) -> Result<Keys<Iter<'t>>> {
        self.0.iter(tx).map(Keys)
    }
    /// Copies of all keys that the set had at the snapshot: see [`Map::iter_copy`].
    pub fn iter_copy<'v>(&self, view: View<'v>) -> Result<Keys<Copies<'v>>> {
        self.0.iter_copy(view).map(Keys)
    }
}

impl HashSet<'_> {
    /// Copies of some keys from a place on, and the place to go on from: see [`Map::scan`].
    pub fn scan<T: Transaction>(
        &self,
        tx: &T,
        place: u64,
        most: usize,
    ) -> Result<(u64, Vec<Vec<u8>>)> {
        let (next, entries) = self.0.scan(tx, place, most)?;
        Ok((next, keys(entries)))
    }
}

impl OrderedSet<'_> {
    /// The keys that are not smaller than `start`, in order.
    pub fn range_from<'t>(&self, tx: &'t Read, start: &[u8]) -> Result<Keys<Iter<'t>>> {
        self.0.range_from(tx, start).map(Keys)
    }
    /// Copies of the keys that are not smaller than `start`, in order: [`Set::iter_copy`].
    pub fn range_from_copy<'v>(&self, view: View<'v>, start: &[u8]) -> Result<Keys<Copies<'v>>> {
        self.0.range_from_copy(view, start).map(Keys)
    }
    /// The smallest key.
    pub fn first<'t>(&self, tx: &'t Read) -> Result<Option<&'t [u8]>> {
        Ok(self.0.first(tx)?.map(|(key, _)| key))
    }
    /// The largest key.
    pub fn last<'t>(&self, tx: &'t Read) -> Result<Option<&'t [u8]>> {
        Ok(self.0.last(tx)?.map(|(key, _)| key))
    }
    /// A copy of the first key that is not smaller than `start`; also for updates and snapshots.
    pub fn first_from<T: Transaction>(&self, tx: &T, start: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.first_from(tx, start)?.map(|(key, _)| key))
    }
    /// A copy of the largest key; also for updates and snapshots.
    pub fn last_copy<T: Transaction>(&self, tx: &T) -> Result<Option<Vec<u8>>> {
        Ok(self.0.last_copy(tx)?.map(|(key, _)| key))
    }
    /// Remove the keys that are not smaller than `start`, and smaller than `end`: see
    /// [`Map::remove_range`].
    pub fn remove_range(&self, tx: &mut Update, start: &[u8], end: Option<&[u8]>) -> Result<u64> {
        self.0.remove_range(tx, start, end)
    }
    /// [`Set::remove_range`] in several updates: see [`Map::remove_range_in_parts`].
    pub fn remove_range_in_parts(
        &self,
        me: &Thread<'_>,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<u64> {
        self.0.remove_range_in_parts(me, start, end)
    }
}

/// The keys of a set: see [`Set::iter`] and [`Set::iter_copy`].
pub struct Keys<I>(I);

impl<'t> Iterator for Keys<Iter<'t>> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        self.0.next().map(|(key, _)| key)
    }
}
impl Iterator for Keys<Copies<'_>> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        self.0.next().map(|entry| entry.map(|(key, _)| key))
    }
}
