// SPDX-License-Identifier: BSD-3-Clause
//! Sets, removal by a predicate and in parts, walks by numbers, and several values of a key.

mod common;

use common::Place;
use libfur::{code, Heap, Options, Pm, Result};
use std::collections::BTreeSet;

/// With a log that has no room to remove many entries.
fn heap_at(place: &Place) -> Heap {
    let options = Options::new().heap_bytes(16 << 20).log_bytes(1 << 14).pm(Pm::Emulated);
    Heap::open_or_create(&place.0, &options).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("{:04} of more than twelve characters", n).into_bytes()
}
fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[..4]).unwrap().parse().unwrap()
}

macro_rules! retain_test {
    ($test:ident, $map:ident) => {
        #[test]
        fn $test() {
            let place = Place::new();
            let heap = heap_at(&place);
            let me = heap.register().unwrap();
            let map = me.$map("map").unwrap();
            let numbers = || -> BTreeSet<u64> {
                me.read(|tx| Result::Ok(map.iter(tx)?.map(|(key, _)| number(key)).collect()))
                    .unwrap()
            };
            for n in 0..1500 {
                me.update(|tx| map.put(tx, &key(n), &n.to_ne_bytes())).unwrap();
            }
            let keep = |key: &[u8], value: &[u8]| {
                assert_eq!(number(key).to_ne_bytes(), value);
                number(key) < 20
            };
            let error = me.update(|tx| map.retain(tx, keep)).unwrap_err();
            assert_eq!(error.code(), code::ETOOBIG);
            assert_eq!(numbers().len(), 1500);
            assert_eq!(map.retain_in_parts(&me, keep).unwrap(), 1480);
            assert_eq!(numbers(), (0..20).collect());
            let mut asked = 0;
            let removed = me.update(|tx| {
                asked = 0;
                map.retain(tx, |key, _| {
                    asked += 1;
                    number(key) % 2 == 0
                })
            });
            assert_eq!((removed.unwrap(), asked), (10, 20));
            assert_eq!(numbers(), (0..20).filter(|n| n % 2 == 0).collect());

            // A panic removes nothing, and is the caller's.
            let panics = |key: &[u8], _: &[u8]| number(key) != 4 || panic!("at four");
            for in_parts in [false, true] {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    if in_parts {
                        map.retain_in_parts(&me, |key, value| !panics(key, value))
                    } else {
                        me.update(|tx| map.retain(tx, |key, value| !panics(key, value)))
                    }
                }));
                assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"at four"));
                assert_eq!(numbers().len(), 10);
            }
            me.read(|tx| {
                let refused = map.retain_in_parts(&me, |_, _| false).unwrap_err();
                assert_eq!(refused.code(), code::ENESTED);
                let refused = map.clear_in_parts(&me).unwrap_err();
                assert_eq!(refused.code(), code::ENESTED);
                map.len(tx)
            })
            .unwrap();
            for n in 0..1500 {
                me.update(|tx| map.put(tx, &key(n), b"")).unwrap();
            }
            map.clear_in_parts(&me).unwrap();
            assert!(numbers().is_empty());

            let other_place = Place::new();
            let other = heap_at(&other_place);
            let other = other.register().unwrap();
            for refused in [
                other.update(|tx| map.retain(tx, |_, _| false)).map(drop),
                map.retain_in_parts(&other, |_, _| false).map(drop),
                map.clear_in_parts(&other),
            ] {
                assert_eq!(refused.unwrap_err().code(), code::EINVAL);
            }
        }
    };
}
retain_test!(a_hash_map_retains, hash_map);
retain_test!(an_ordered_map_retains, ordered_map);

macro_rules! set_test {
    ($test:ident, $set:ident, $map:ident) => {
        #[test]
        fn $test() {
            let place = Place::new();
            {
                let heap = heap_at(&place);
                let me = heap.register().unwrap();
                let set = me.$set("set").unwrap();
                me.update(|tx| {
                    assert!(set.is_empty(tx)?);
                    for n in [3, 1, 2] {
                        assert!(set.insert(tx, &key(n))?);
                    }
                    assert!(!set.insert(tx, &key(2))?);
                    assert!(set.remove(tx, &key(1))?);
                    assert!(!set.remove(tx, &key(1))?);
                    Result::Ok(())
                })
                .unwrap();
                let rolled_back = me.update(|tx| {
                    set.clear(tx)?;
                    assert!(set.is_empty(tx)?);
                    set.contains(tx, &key(2)).and_then(|_| me.update(|_| Result::Ok(())))
                });
                assert_eq!(rolled_back.unwrap_err().code(), code::ENESTED);
            }
            let heap = heap_at(&place);
            let me = heap.register().unwrap();
            let set = me.$set("set").unwrap();
            let then = me.snapshot().unwrap();
            assert_eq!(me.update(|tx| set.retain(tx, |key| number(key) == 3)).unwrap(), 1);
            me.read(|tx| {
                assert_eq!(set.len(tx)?, 1);
                assert!(set.contains(tx, &key(3))?);
                let many = set.contains_many(tx, &[key(1), key(2), key(3)])?;
                assert_eq!(many, [false, false, true]);
                assert_eq!(set.iter(tx)?.collect::<Vec<_>>(), [key(3)]);
                Result::Ok(())
            })
            .unwrap();
            let view = then.view(&me);
            assert!(set.contains(&view, &key(2)).unwrap());
            let copies: Result<BTreeSet<_>> = set.iter_copy(view).unwrap().collect();
            assert_eq!(copies.unwrap(), [key(2), key(3)].into_iter().collect());
            assert_eq!(set.retain_in_parts(&me, |_| false).unwrap(), 1);
            for n in 0..1000 {
                me.update(|tx| set.insert(tx, &key(n))).unwrap();
            }
            set.clear_in_parts(&me).unwrap();
            me.update(|tx| set.insert(tx, b"last")).unwrap();
            let map = me.$map("set").unwrap();
            me.read(|tx| {
                assert_eq!(map.iter(tx)?.collect::<Vec<_>>(), [(&b"last"[..], &b""[..])]);
                Result::Ok(())
            })
            .unwrap();
        }
    };
}
set_test!(a_hash_set, hash_set, hash_map);
set_test!(an_ordered_set, ordered_set, ordered_map);

#[test]
fn an_ordered_set_has_an_order() {
    let place = Place::new();
    let heap = heap_at(&place);
    let me = heap.register().unwrap();
    let set = me.ordered_set("set").unwrap();
    me.read(|tx| {
        assert_eq!((set.first(tx)?, set.last(tx)?), (None, None));
        Result::Ok(())
    })
    .unwrap();
    for n in 0..1500 {
        me.update(|tx| set.insert(tx, &key(n))).unwrap();
    }
    me.read(|tx| {
        assert_eq!((set.first(tx)?, set.last(tx)?), (Some(&key(0)[..]), Some(&key(1499)[..])));
        assert_eq!(set.range_from(tx, b"0700")?.next(), Some(&key(700)[..]));
        Result::Ok(())
    })
    .unwrap();
    let then = me.snapshot().unwrap();
    assert_eq!(me.update(|tx| set.remove_range(tx, b"0010", Some(b"0020"))).unwrap(), 10);
    let all = me.update(|tx| set.remove_range(tx, b"0010", None)).unwrap_err();
    assert_eq!(all.code(), code::ETOOBIG);
    assert_eq!(set.remove_range_in_parts(&me, b"0010", Some(b"1400")).unwrap(), 1380);
    assert_eq!(set.remove_range_in_parts(&me, b"0010", None).unwrap(), 100);
    me.update(|tx| {
        assert_eq!(set.len(tx)?, 10);
        assert_eq!(set.last_copy(tx)?, Some(key(9)));
        assert_eq!(set.first_from(tx, b"0005")?, Some(key(5)));
        let refused = set.remove_range_in_parts(&me, b"", None).unwrap_err();
        assert_eq!(refused.code(), code::ENESTED);
        Result::Ok(())
    })
    .unwrap();
    let view = then.view(&me);
    assert_eq!(set.last_copy(&view).unwrap(), Some(key(1499)));
    let copies: Result<Vec<_>> = set.range_from_copy(view, b"1498").unwrap().collect();
    assert_eq!(copies.unwrap(), [key(1498), key(1499)]);
}

#[test]
fn a_walk_by_numbers_sees_what_is_there_all_the_time() {
    let place = Place::new();
    let (mut at, mut next) = (0, 200);
    let mut seen = BTreeSet::new();
    loop {
        // Each step could be another process.
        let heap = heap_at(&place);
        let me = heap.register().unwrap();
        let set = me.hash_set("set").unwrap();
        let is_first = at == 0;
        if is_first {
            for n in 0..200 {
                me.update(|tx| set.insert(tx, &key(n))).unwrap();
            }
        }
        let (on, keys) = me.read(|tx| set.scan(tx, at, 10)).unwrap();
        assert!(keys.len() >= 10 || on == 0);
        seen.extend(keys.iter().map(|key| number(key)));
        for n in next..next + 30 {
            me.update(|tx| set.insert(tx, &key(n))).unwrap();
            if !is_first {
                me.update(|tx| set.remove(tx, &key(n - 30))).unwrap();
            }
        }
        next += 30;
        at = on;
        if at == 0 {
            break;
        }
    }
    assert!((0..200).all(|n| seen.contains(&n)));
}

#[test]
fn a_walk_by_numbers_in_every_transaction() {
    let place = Place::new();
    let heap = heap_at(&place);
    let me = heap.register().unwrap();
    let map = me.hash_map("map").unwrap();
    for n in 0..100 {
        me.update(|tx| map.put(tx, &key(n), &vec![b'v'; 10 * n as usize])).unwrap();
    }
    let large = vec![b'v'; 200_000];
    let whole = Place::new();
    let heap_for_large = Heap::create(&whole.0, &Options::new().pm(Pm::Emulated)).unwrap();
    let other = heap_for_large.register().unwrap();
    let of_large = other.hash_map("map").unwrap();
    other.update(|tx| of_large.put(tx, b"large", &large)).unwrap();
    let (on, entries) = other.read(|tx| of_large.scan(tx, 0, 1)).unwrap();
    assert_eq!((on, entries), (0, vec![(b"large".to_vec(), large)]));

    let then = me.snapshot().unwrap();
    let walk = |scan: &mut dyn FnMut(u64) -> Result<(u64, Vec<libfur::OwnedEntry>)>| {
        let (mut at, mut all) = scan(0).unwrap();
        while at != 0 {
            let (on, entries) = scan(at).unwrap();
            all.extend(entries);
            at = on;
        }
        all.sort();
        all
    };
    let expected: Vec<_> = (0..100).map(|n| (key(n), vec![b'v'; 10 * n as usize])).collect();
    assert_eq!(walk(&mut |at| me.read(|tx| map.scan(tx, at, 7))), expected);
    assert_eq!(walk(&mut |at| me.update(|tx| map.scan(tx, at, 7))), expected);
    map.clear_in_parts(&me).unwrap();
    assert_eq!(walk(&mut |at| map.scan(&then.view(&me), at, 7)), expected);
    assert!(me.read(|tx| of_large.scan(tx, 0, 7)).is_err(), "another heap's map");
}

/// Several values for a key: composite keys in an ordered set (docs/bindings.md).
#[test]
fn several_values_for_a_key() {
    fn pair(user: &str, token: &str) -> Vec<u8> {
        [user.as_bytes(), b"\0", token.as_bytes()].concat()
    }
    fn behind(user: &str) -> Vec<u8> {
        [user.as_bytes(), b"\x01"].concat()
    }
    let place = Place::new();
    let heap = heap_at(&place);
    let me = heap.register().unwrap();
    let logins = me.ordered_set("logins").unwrap();
    let of = |user: &str| {
        me.read(|tx| {
            let from = logins.range_from(tx, &pair(user, ""))?;
            let its = from.take_while(|key| **key < behind(user)[..]);
            Result::Ok(its.map(|key| key[user.len() + 1..].to_vec()).collect::<Vec<_>>())
        })
        .unwrap()
    };
    me.update(|tx| {
        for (user, token) in [("ada", "3"), ("ada", "1"), ("ad", "4"), ("ada", "2"), ("adam", "5")]
        {
            assert!(logins.insert(tx, &pair(user, token))?);
        }
        assert!(!logins.insert(tx, &pair("ada", "1"))?);
        assert!(logins.remove(tx, &pair("ada", "2"))?);
        Result::Ok(())
    })
    .unwrap();
    assert_eq!(of("ada"), [b"1", b"3"]);
    let (first, last) = (pair("ada", ""), behind("ada"));
    assert_eq!(me.update(|tx| logins.remove_range(tx, &first, Some(&last))).unwrap(), 2);
    assert!(of("ada").is_empty());
    assert_eq!((of("ad"), of("adam")), (vec![b"4".to_vec()], vec![b"5".to_vec()]));
}
