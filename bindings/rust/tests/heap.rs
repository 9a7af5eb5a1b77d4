// SPDX-License-Identifier: BSD-3-Clause
//! Maps against std's, threads, kills, and mistakes.

mod common;

use common::Place;
use libfur::{Durable, Error, Heap, Htm, Isolation, Level, Options, Pm, Snapshot, Ticket};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn options() -> Options {
    Options::new().heap_bytes(16 << 20).log_bytes(1 << 18).max_threads(8).pm(Pm::Emulated)
}

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn key(n: u64) -> Vec<u8> {
    let mut key = vec![b'k'; (n % 30) as usize];
    key.extend(n.to_string().bytes());
    key
}

macro_rules! model_test {
    ($test:ident, $map:ident) => {
        #[test]
        fn $test() {
            let place = Place::new();
            let seed = std::process::id() as u64;
            let mut chance = Chance(seed);
            let mut model = BTreeMap::new();
            for round in 0..4 {
                let heap = Heap::open_or_create(&place.0, &options()).unwrap();
                let me = heap.register().unwrap();
                let map = me.$map("map").unwrap();
                for _ in 0..400 {
                    let key = key(chance.below(80));
                    let value = vec![b'v'; chance.below(40) as usize];
                    let before = model.clone();
                    let fails = chance.below(5) == 0;
                    let result = me.update(|tx| {
                        match chance.below(4) {
                            0 => {
                                let added = map.put(tx, &key, &value)?;
                                assert_eq!(added, model.insert(key.clone(), value).is_none());
                            }
                            1 => {
                                let added = map.insert(tx, &key, &value)?;
                                assert_eq!(added, !model.contains_key(&key));
                                model.entry(key.clone()).or_insert(value);
                            }
                            2 => assert_eq!(map.remove(tx, &key)?, model.remove(&key).is_some()),
                            _ => assert_eq!(map.contains_key(tx, &key)?, model.contains_key(&key)),
                        }
                        assert_eq!(map.get_copy(tx, &key)?.as_ref(), model.get(&key));
                        if fails {
                            return Err(Box::<dyn std::error::Error>::from("undo"));
                        }
                        Ok(())
                    });
                    assert_eq!(result.is_err(), fails);
                    if fails {
                        model = before;
                    }
                }
                me.read(|tx| {
                    let all: BTreeMap<_, _> =
                        map.iter(tx)?.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                    assert_eq!(all, model, "seed {} round {}", seed, round);
                    assert_eq!(map.len(tx)?, model.len() as u64);
                    assert_eq!(map.is_empty(tx)?, model.is_empty());
                    for (key, value) in &model {
                        assert_eq!(map.get(tx, key)?, Some(&value[..]));
                    }
                    Ok::<_, Error>(())
                })
                .unwrap();
                heap.close().unwrap();
            }
        }
    };
}
model_test!(hash_map_does_what_a_map_does, hash_map);
model_test!(ordered_map_does_what_a_map_does, ordered_map);

type Values = Vec<Option<Vec<u8>>>;

macro_rules! many_keys_test {
    ($test:ident, $map:ident) => {
        #[test]
        fn $test() {
            const SIZES: [usize; 9] = [0, 1, 12, 13, 255, 256, 257, 1000, 100_000];
            let place = Place::new();
            let heap = Heap::create(&place.0, &options()).unwrap();
            let me = heap.register().unwrap();
            let map = me.$map("map").unwrap();
            let value = |letter: u8, n: usize| vec![letter; SIZES[n % 9]];
            let of = |letter: u8, gap: usize| -> BTreeMap<_, _> {
                let there = (0..190).filter(|n| n % gap != 0);
                there.map(|n| (key(n as u64), value(letter, n + gap))).collect()
            };
            let (mut old, new) = (of(b'o', 4), of(b'n', 3));
            old.insert(Vec::new(), b"of the empty key".to_vec());
            let store = |model: &BTreeMap<Vec<u8>, Vec<u8>>| {
                me.update(|tx| map.clear(tx)).unwrap();
                for (key, value) in model {
                    me.update(|tx| map.put(tx, key, value)).unwrap();
                }
            };
            // Some are not there, and some are there twice.
            let mut keys: Vec<_> = (0..190).chain(0..20).map(key).collect();
            keys.push(b"none".to_vec());
            keys.push(Vec::new());
            let few = [&keys[..0], &keys[..1], &keys[1..2], &keys[keys.len() - 17..]];
            let all: Vec<_> = few.into_iter().chain([&keys[keys.len() - 200..]]).collect();
            let expected = |model: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<Values> {
                all.iter()
                    .map(|keys| keys.iter().map(|key| model.get(key).cloned()).collect())
                    .collect()
            };
            // In every kind of transaction.
            macro_rules! found {
                ($tx:expr) => {{
                    let tx = $tx;
                    let mut found = Vec::new();
                    for keys in &all {
                        let values = map.get_many(tx, keys)?;
                        for (key, value) in keys.iter().zip(&values) {
                            assert_eq!(&map.get_copy(tx, key)?, value);
                        }
                        found.push(values);
                    }
                    Ok::<_, Error>(found)
                }};
            }
            assert_eq!(me.read(|tx| found!(tx)).unwrap(), expected(&BTreeMap::new()));
            store(&old);
            assert_eq!(me.read(|tx| found!(tx)).unwrap(), expected(&old));
            let then = me.snapshot().unwrap();
            let in_snapshot = || found!(&then.view(&me));
            store(&new);
            assert_eq!(in_snapshot().unwrap(), expected(&old));
            assert_eq!(me.read(|tx| found!(tx)).unwrap(), expected(&new));
            let mut changed = new.clone();
            me.update(|tx| {
                for n in 0..40 {
                    changed.insert(key(n), vec![b'u'; 300]);
                    map.put(tx, &key(n), &[b'u'; 300])?;
                }
                changed.remove(&key(50));
                assert!(map.remove(tx, &key(50))?);
                assert_eq!(found!(&*tx)?, expected(&changed));
                Ok::<_, Error>(())
            })
            .unwrap();
            assert_eq!(me.read(|tx| found!(tx)).unwrap(), expected(&changed));
            assert_eq!(in_snapshot().unwrap(), expected(&old));
        }
    };
}
many_keys_test!(many_keys_of_a_hash_map_are_found_as_one_by_one, hash_map);
many_keys_test!(many_keys_of_an_ordered_map_are_found_as_one_by_one, ordered_map);

#[test]
fn an_ordered_map_has_an_order() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.ordered_map("map").unwrap();
    let keys: Vec<_> = (0..300u32).map(|n| n.to_be_bytes()).collect();
    me.read(|tx| {
        assert_eq!(map.first(tx)?, None);
        assert_eq!(map.iter(tx)?.count(), 0);
        Ok::<_, Error>(())
    })
    .unwrap();
    me.update(|tx| keys.iter().rev().try_for_each(|key| map.put(tx, key, b"").map(drop))).unwrap();
    me.read(|tx| {
        let found: Vec<_> = map.range_from(tx, &keys[7])?.map(|(key, _)| key.to_vec()).collect();
        assert_eq!(found, keys[7..].iter().map(|k| k.to_vec()).collect::<Vec<_>>());
        assert_eq!(map.first(tx)?.unwrap().0, keys[0]);
        assert_eq!(map.last(tx)?.unwrap().0, keys[299]);
        assert_eq!(map.range_from(tx, b"\xff")?.next(), None);
        Ok::<_, Error>(())
    })
    .unwrap();
    me.update(|tx| {
        map.remove(tx, &keys[5])?;
        assert_eq!(map.first_from(tx, &keys[5])?.unwrap().0, keys[6]);
        assert_eq!(map.remove_range(tx, &keys[4], Some(&keys[8]))?, 3);
        assert_eq!(map.first_from(tx, &keys[4])?.unwrap().0, keys[8]);
        assert_eq!(map.remove_range(tx, &keys[290], None)?, 10);
        assert_eq!(map.last_copy(tx)?.unwrap().0, keys[289]);
        map.clear(tx)?;
        assert_eq!(map.first_from(tx, &keys[5])?, None);
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn a_panic_rolls_back() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.hash_map("map").unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        me.update(|tx| -> Result<(), Error> {
            map.put(tx, b"key", b"value")?;
            panic!("on purpose");
        })
    }));
    assert!(caught.is_err());
    assert!(!me.read(|tx| map.contains_key(tx, b"key")).unwrap());
    me.update(|tx| map.put(tx, b"key", b"value")).unwrap();
}

#[test]
fn mistakes_are_errors() {
    let (place, other) = (Place::new(), Place::new());
    let error = Heap::open(&place.0, &options()).unwrap_err();
    assert_eq!(error.code(), -3);
    assert!(error.to_string().contains(place.0.to_str().unwrap()), "{}", error);
    let heap = Heap::create(&place.0, &options()).unwrap();
    assert_eq!(Heap::create(&place.0, &options()).unwrap_err().code(), -4);
    let heap_2 = Heap::create(&other.0, &options()).unwrap();
    let (me, me_2) = (heap.register().unwrap(), heap_2.register().unwrap());
    let (map, map_2) = (me.hash_map("map").unwrap(), me_2.hash_map("map").unwrap());
    assert!(me.ordered_map("map").unwrap_err().to_string().contains("'map'"));
    assert_eq!(me.hash_map("m\0").unwrap_err().code(), -1);
    // One transaction at a time, and on its own heap.
    me.read(|tx| {
        assert_eq!(me.read(|_| Ok::<_, Error>(())).unwrap_err().code(), -12);
        assert_eq!(me.update(|_| Ok::<_, Error>(())).unwrap_err().code(), -12);
        assert_eq!(me_2.read(|_| Ok::<_, Error>(())).unwrap_err().code(), -12);
        assert!(me.hash_map("new").is_err());
        assert!(map_2.get(tx, b"key").unwrap_err().to_string().contains("another heap"));
        assert_eq!(map_2.get_many(tx, &[b"key"]).unwrap_err(), map_2.get(tx, b"key").unwrap_err());
        map.len(tx)
    })
    .unwrap();
    me.update(|tx| {
        assert_eq!(me.read(|_| Ok::<_, Error>(())).unwrap_err().code(), -12);
        assert_eq!(me.update(|_| Ok::<_, Error>(())).unwrap_err().code(), -12);
        assert_eq!(me_2.update(|_| Ok::<_, Error>(())).unwrap_err().code(), -12);
        map.len(tx)
    })
    .unwrap();
    assert_eq!(me.update(|tx| map_2.put(tx, b"key", b"value")).unwrap_err().code(), -1);
    // An update that does not fit leaves nothing.
    let error = me
        .update(|tx| {
            (0..100_000u32).try_for_each(|n| map.put(tx, &n.to_le_bytes(), b"v").map(drop))
        })
        .unwrap_err();
    assert_eq!(error.code(), -15, "{}", error);
    assert!(me.read(|tx| map.is_empty(tx)).unwrap());
    let copy = Place::new();
    me.update(|tx| map.put(tx, b"key", b"value")).unwrap();
    heap.backup(&copy.0).unwrap();
    let copied = std::fs::metadata(&copy.0).unwrap().len();
    assert!(copied >= heap.bytes(), "{}", copied);
    assert!(heap.grow(1 << 40).is_err());
}

#[test]
fn threads_see_whole_updates() {
    const ACCOUNTS: u64 = 8;
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.hash_map("accounts").unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    me.update(|tx| {
        (0..ACCOUNTS).try_for_each(|n| map.put(tx, &key(n), &100u64.to_le_bytes()).map(drop))
    })
    .unwrap();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let heap = &heap;
            scope.spawn(move || {
                let me = heap.register().unwrap();
                let mut chance = Chance(seed);
                for _ in 0..500 {
                    let (from, to) = (key(chance.below(ACCOUNTS)), key(chance.below(ACCOUNTS)));
                    me.update(|tx| {
                        let there = number(&map.get_copy(tx, &from)?.unwrap());
                        if there > 0 {
                            map.put(tx, &from, &(there - 1).to_le_bytes())?;
                            let more = number(&map.get_copy(tx, &to)?.unwrap()) + 1;
                            map.put(tx, &to, &more.to_le_bytes())?;
                        }
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                }
            });
        }
        for _ in 0..500 {
            let sum: u64 = me
                .read(|tx| Ok::<_, Error>(map.iter(tx)?.map(|(_, value)| number(value)).sum()))
                .unwrap();
            assert_eq!(sum, ACCOUNTS * 100);
        }
    });
}

#[test]
fn a_map_goes_with_its_name() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.hash_map("map").unwrap();
    me.update(|tx| map.put(tx, b"key", b"value")).unwrap();
    assert!(me.remove_root("map").unwrap());
    assert!(!me.remove_root("map").unwrap());
    assert_eq!(me.read(|tx| map.len(tx)).unwrap(), 1);
    // More than fits at a time.
    for _ in 0..300 {
        let map = me.ordered_map("map").unwrap();
        me.update(|tx| map.put(tx, b"key", &vec![1; 150_000])).unwrap();
        // Safety: `map` is not used any more.
        assert!(unsafe { me.destroy("map") }.unwrap());
    }
    assert!(!unsafe { me.destroy("map") }.unwrap());
    assert!(me.remove_root("map\0").is_err());
    let nested = me.read(|_| me.remove_root("map"));
    assert_eq!(nested.unwrap_err().code(), -12);
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        assert!(Instant::now() < end, "no thread wakes the task");
        std::thread::park_timeout(Duration::from_secs(61));
    }
}

#[test]
fn tickets_are_waited_for() {
    let (place, other) = (Place::new(), Place::new());
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.ordered_map("map").unwrap();
    let mut newest = None;
    for n in 0..100u32 {
        let (added, ticket) =
            me.update_with_ticket(|tx| map.put(tx, &n.to_be_bytes(), b"v")).unwrap();
        assert!(added);
        newest = Some(ticket);
    }
    let newest = newest.unwrap();
    me.wait(newest).unwrap();
    let (size, ticket) = me.read_with_ticket(|tx| map.len(tx)).unwrap();
    assert_eq!(size, 100);
    std::thread::scope(|scope| {
        scope.spawn(|| heap.register().unwrap().wait(ticket).unwrap());
    });
    heap.sync().unwrap();
    // An update that fails has no ticket, and leaves nothing.
    let failed: Result<((), Ticket), Error> = me.update_with_ticket(|tx| {
        map.clear(tx)?;
        me.wait(newest)
    });
    assert_eq!(failed.unwrap_err().code(), -12);
    assert_eq!(me.read(|tx| map.len(tx)).unwrap(), 100);
    // A ticket belongs to its heap, as long as that is open.
    let heap_2 = Heap::create(&other.0, &options()).unwrap();
    assert_eq!(heap_2.register().unwrap().wait(newest).unwrap_err().code(), -1);
    assert_eq!(block_on(heap_2.durable(newest)).unwrap_err().code(), -1);
    heap.close().unwrap();
    let heap = Heap::open(&place.0, &options()).unwrap();
    assert_eq!(heap.register().unwrap().wait(newest).unwrap_err().code(), -1);
}

#[test]
fn futures_are_ready_when_their_tickets_are_durable() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    std::thread::scope(|scope| {
        for n in 0..4u32 {
            let heap = &heap;
            scope.spawn(move || {
                // Executors with several threads ask that it is Send.
                let task: Box<dyn Future<Output = _> + Send> = Box::new(async move {
                    for k in 0..50u32 {
                        let ticket = {
                            let me = heap.register()?;
                            let map = me.ordered_map("map")?;
                            let key = (n * 50 + k).to_be_bytes();
                            me.update_with_ticket(|tx| map.put(tx, &key, b"v"))?.1
                        };
                        heap.durable(ticket).await?;
                    }
                    Ok::<_, Error>(())
                });
                block_on(Box::into_pin(task)).unwrap()
            });
        }
    });
    let me = heap.register().unwrap();
    let map = me.ordered_map("map").unwrap();
    assert_eq!(me.read(|tx| map.len(tx)).unwrap(), 200);
}

#[test]
fn a_closed_heap_leaves_no_future_pending() {
    let place = Place::new();
    for round in 0..20 {
        let heap = Heap::open_or_create(&place.0, &options()).unwrap();
        let futures: Vec<Durable> = (0..5u32)
            .map(|n| {
                let me = heap.register().unwrap();
                let map = me.ordered_map("map").unwrap();
                heap.durable(
                    me.update_with_ticket(|tx| map.put(tx, &key(n.into()), b"v")).unwrap().1,
                )
            })
            .collect();
        if round % 2 == 0 {
            heap.close().unwrap();
        } else {
            drop(heap);
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        for future in futures {
            let mut future = Box::pin(future);
            let result = future.as_mut().poll(&mut Context::from_waker(&waker));
            assert_eq!(result, Poll::Ready(Ok(())));
        }
    }
}

/// A task that only its waker has, and that owns the heap.
struct Owner(Mutex<Option<Heap>>, std::thread::Thread);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
        self.1.unpark();
        panic!("on purpose, in the waiting thread");
    }
}

#[test]
fn a_waker_may_drop_the_heap_and_panic() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let ticket = {
        let me = heap.register().unwrap();
        let map = me.ordered_map("map").unwrap();
        me.update_with_ticket(|tx| map.put(tx, b"k", b"v")).unwrap().1
    };
    let mut first = Box::pin(heap.durable(ticket));
    block_on(heap.durable(ticket)).unwrap();
    let owner = Arc::new(Owner(Mutex::new(Some(heap)), std::thread::current()));
    let waker = Waker::from(owner.clone());
    // Until it is asked before it is ready.
    let mut rounds = 0;
    while first.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        let heap = owner.0.lock().unwrap();
        first = Box::pin(heap.as_ref().unwrap().durable(ticket));
        rounds += 1;
        assert!(rounds < 100_000);
    }
    let end = Instant::now() + Duration::from_secs(60);
    while owner.0.lock().map_or(false, |heap| heap.is_some()) {
        assert!(Instant::now() < end, "no thread wakes the task");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(block_on(first), Ok(()));
}

/// In a process of its own: updates 1, 2, ..., each printed when it is durable.
#[test]
fn writer() {
    if let Ok(path) = std::env::var("WRITE_TO") {
        let heap = Heap::open_or_create(path, &options()).unwrap();
        let me = heap.register().unwrap();
        let map = me.ordered_map("map").unwrap();
        let first = me.read(|tx| map.len(tx)).unwrap() as u32;
        for n in first + 1.. {
            me.update(|tx| map.put(tx, &n.to_be_bytes(), &key(n.into()))).unwrap();
            println!("update {}", n);
            std::io::stdout().flush().unwrap();
        }
    }
}

#[test]
fn printed_updates_survive_a_kill() {
    let place = Place::new();
    for round in 1..5 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--nocapture"])
            .env("WRITE_TO", &place.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut last = 0;
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut printed = 0;
        for line in lines.by_ref().map(Result::unwrap) {
            // The line of the last update may be cut; it is durable all the same, or was not yet.
            if let Some(n) = line.split("update ").nth(1) {
                last = n.parse().unwrap_or(last);
                printed += 1;
            }
            if printed == 60 * round {
                writer.kill().unwrap();
                break;
            }
        }
        for line in lines.map(Result::unwrap) {
            if let Some(n) = line.split("update ").nth(1) {
                last = n.parse().unwrap_or(last);
            }
        }
        writer.wait().unwrap();
        let heap = Heap::open(&place.0, &options()).unwrap();
        let me = heap.register().unwrap();
        let map = me.ordered_map("map").unwrap();
        me.read(|tx| {
            let found: Vec<_> = map.iter(tx)?.collect();
            assert!(found.len() as u32 >= last && last > 0, "{} of {}", found.len(), last);
            for (n, (k, v)) in (1u32..).zip(found) {
                assert_eq!((k, v), (&n.to_be_bytes()[..], &key(n.into())[..]));
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    }
}

macro_rules! snapshot_test {
    ($test:ident, $map:ident) => {
        #[test]
        fn $test() {
            let place = Place::new();
            let heap = Heap::create(&place.0, &options()).unwrap();
            let me = heap.register().unwrap();
            let map = me.$map("map").unwrap();
            let mut chance = Chance(std::process::id() as u64);
            let mut model = BTreeMap::new();
            let mut kept: Vec<(Snapshot, BTreeMap<Vec<u8>, Vec<u8>>)> = Vec::new();
            for round in 0..60 {
                for _ in 0..20 {
                    let key = key(chance.below(300));
                    let value = vec![b'v'; chance.below(600) as usize];
                    me.update(|tx| {
                        if chance.below(3) == 0 {
                            model.remove(&key);
                            map.remove(tx, &key)
                        } else {
                            model.insert(key.clone(), value.clone());
                            map.put(tx, &key, &value)
                        }
                    })
                    .unwrap();
                }
                if round % 5 == 0 {
                    kept.push((me.snapshot().unwrap(), model.clone()));
                }
                if kept.len() > 4 {
                    kept.swap_remove(chance.below(5) as usize);
                }
                for (snapshot, then) in &kept {
                    let view = snapshot.view(&me);
                    let found: BTreeMap<_, _> =
                        map.iter_copy(view).unwrap().map(Result::unwrap).collect();
                    assert_eq!(&found, then);
                    assert_eq!(map.len(&view).unwrap(), then.len() as u64);
                    let key = key(chance.below(300));
                    assert_eq!(map.get_copy(&view, &key).unwrap().as_ref(), then.get(&key));
                    assert_eq!(map.contains_key(&view, &key).unwrap(), then.contains_key(&key));
                }
            }
        }
    };
}
snapshot_test!(snapshots_of_a_hash_map_show_what_there_was, hash_map);
snapshot_test!(snapshots_of_an_ordered_map_show_what_there_was, ordered_map);

#[test]
fn a_walk_through_a_snapshot_goes_on_beside_updates() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let (hash, ordered) = (me.hash_map("hash").unwrap(), me.ordered_map("ordered").unwrap());
    let keys: Vec<_> = (0..3000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let value = |n: usize| vec![b'v'; n % 60 + if n % 700 == 0 { 70_000 } else { 0 }];
    for (n, key) in keys.iter().enumerate() {
        me.update(|tx| {
            hash.put(tx, key, &value(n))?;
            ordered.put(tx, key, &value(n))
        })
        .unwrap();
    }
    let then = me.snapshot().unwrap();
    let view = then.view(&me);
    assert_eq!(ordered.first_from(&view, &keys[9]).unwrap().unwrap().1, value(9));
    assert_eq!(ordered.last_copy(&view).unwrap().unwrap(), (keys[2999].clone(), value(2999)));
    for (n, entry) in ordered.range_from_copy(view, &keys[5]).unwrap().enumerate() {
        assert_eq!(entry.unwrap(), (keys[n + 5].clone(), value(n + 5)));
        me.update(|tx| ordered.remove(tx, &keys[2999 - n])).unwrap();
    }
    assert_eq!(me.read(|tx| ordered.len(tx)).unwrap(), 5);
    // Next to another thread's updates, and by two threads.
    std::thread::scope(|scope| {
        let (heap, keys, then) = (&heap, &keys, &then);
        scope.spawn(move || {
            let me = heap.register().unwrap();
            for key in keys {
                me.update(|tx| hash.put(tx, key, b"new")).unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(move || {
                let me = heap.register().unwrap();
                let mut found: Vec<_> =
                    hash.iter_copy(then.view(&me)).unwrap().map(Result::unwrap).collect();
                found.sort();
                assert!(found.iter().map(|(key, _)| key).eq(keys));
                assert!(found.iter().enumerate().all(|(n, (_, v))| *v == value(n)));
            });
        }
    });
}

#[test]
fn a_snapshot_that_is_too_old_is_an_error() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options().snapshot_bytes(1)).unwrap();
    let me = heap.register().unwrap();
    let map = me.ordered_map("map").unwrap();
    let fill = |with: u8| {
        for n in 0..3000u32 {
            me.update(|tx| map.put(tx, &n.to_be_bytes(), &[with; 64])).unwrap();
        }
    };
    fill(0);
    let then = me.snapshot().unwrap();
    let mut walk = map.iter_copy(then.view(&me)).unwrap();
    assert_eq!(walk.next().unwrap().unwrap().1, [0; 64]);
    fill(1);
    // What it has copied already is as it was; then it fails, and ends.
    let rest: Vec<_> = walk.by_ref().collect();
    let (last, before) = rest.split_last().unwrap();
    assert!(before.iter().all(|entry| entry.as_ref().unwrap().1 == [0; 64]));
    assert_eq!(last.as_ref().unwrap_err().code(), libfur::code::ETOOOLD);
    assert!(walk.next().is_none());
    let error = map.get_copy(&then.view(&me), b"k").unwrap_err();
    assert_eq!(error.code(), libfur::code::ETOOOLD);
    assert!(error.to_string().contains("snapshot_bytes"), "{}", error);
    assert_eq!(map.get_many(&then.view(&me), &[b"k"]).unwrap_err().code(), error.code());
    drop(then);
    let now = me.snapshot().unwrap();
    assert_eq!(map.len(&now.view(&me)).unwrap(), 3000);
}

#[test]
fn snapshots_end() {
    let (place, other) = (Place::new(), Place::new());
    let heap = Heap::create(&place.0, &options()).unwrap();
    let heap_2 = Heap::create(&other.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.hash_map("map").unwrap();
    let map_2 = heap_2.register().unwrap().hash_map("map").unwrap();
    let mut all: Vec<_> = (0..64).map(|_| me.snapshot().unwrap()).collect();
    assert_eq!(me.snapshot().unwrap_err().code(), libfur::code::EBUSY);
    // Inside a transaction a snapshot is neither begun nor read; one that is dropped ends after it.
    for _ in 0..3 {
        let then = all.pop().unwrap();
        me.read(|_| {
            assert_eq!(me.snapshot().unwrap_err().code(), libfur::code::ENESTED);
            let error = map.len(&then.view(&me)).unwrap_err();
            assert_eq!(error.code(), libfur::code::ENESTED);
            let error = map.get_many(&then.view(&me), &[b"key"]).unwrap_err();
            assert_eq!(error.code(), libfur::code::ENESTED);
            drop(then);
            Ok::<_, Error>(())
        })
        .unwrap();
        all.push(me.snapshot().unwrap());
        let then = all.pop().unwrap();
        let failed = me.update(|_| {
            drop(then);
            Err::<(), _>(Box::<dyn std::error::Error>::from("undo"))
        });
        assert!(failed.is_err());
        all.push(me.snapshot().unwrap());
    }
    // In any thread.
    std::thread::scope(|scope| {
        let then = all.pop().unwrap();
        scope.spawn(move || drop(then));
    });
    all.push(me.snapshot().unwrap());
    assert!(map_2.len(&all[0].view(&me)).unwrap_err().to_string().contains("another heap"));
    let later = me.hash_map("later").unwrap();
    let error = later.len(&all[0].view(&me)).unwrap_err();
    assert_eq!(error.code(), libfur::code::EINVAL);
    drop(all);
    heap.close().unwrap();
}

#[test]
fn options_reach_the_library() {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;
    static TOLD: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());
    fn tell(level: Level, message: &str) {
        TOLD.lock().unwrap().push((level, message.to_string()));
    }
    let place = Place::new();
    let given = options().htm(Htm::None).file_mode(0o640).address(0x5200_0000_0000).log(tell);
    let given =
        given.ring_slots(256).async_ms(1).isolation(Isolation::Snapshot).dram_bytes(1 << 30);
    Heap::create(&place.0, &given).unwrap().close().unwrap();
    let told: Vec<_> = TOLD.lock().unwrap().drain(..).collect();
    assert!(
        told.iter().any(|(level, m)| *level == Level::Info && m.contains("software")),
        "{:?}",
        told
    );
    assert_eq!(std::fs::metadata(&place.0).unwrap().permissions().mode() & 0o777, 0o640);
    // The file has what is fixed when it is made.
    let head = std::fs::read(&place.0).unwrap();
    let has = |number: u64| head[..4096].chunks(8).any(|word| word == number.to_le_bytes());
    assert!(has(0x5200_0000_0000) && has(256));
    let wrong = [options().ring_slots(3), options().address(5), options().debug(1 << 60)];
    for (n, wrong) in wrong.iter().enumerate() {
        let error = Heap::create(Place::new().0.clone(), wrong).unwrap_err();
        assert_eq!(error.code(), libfur::code::EINVAL, "{}: {}", n, error);
    }
    let panics = options().log(|_, _| panic!("it ends here"));
    Heap::open(&place.0, &panics).unwrap().close().unwrap();
}

#[test]
fn get_or_insert_keeps_what_is_there() {
    let place = Place::new();
    let heap = Heap::create(&place.0, &options()).unwrap();
    let me = heap.register().unwrap();
    let map = me.hash_map("map").unwrap();
    let get = |value: &'static [u8]| me.update(|tx| map.get_or_insert(tx, b"k", value)).unwrap();
    assert_eq!(get(b"first"), b"first");
    assert_eq!(get(b"second"), b"first");
    let long = [7; 1000];
    me.update(|tx| map.put(tx, b"k", &long)).unwrap();
    assert_eq!(get(b"third"), long);
}
