// SPDX-License-Identifier: BSD-3-Clause
//! The queue of examples/queue.rs under load, killed again and again: what it has acknowledged is
//! there.  KILLS in the environment: how often; 5 by default.

use libfur::{Heap, Options, Pm};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[path = "../examples/queue.rs"]
mod queue;

/// `Sync`: a kill loses what the program did not wait for, as a power failure would.
fn options() -> Options {
    Options::new().heap_bytes(16 << 20).pm(Pm::Sync)
}

/// In a process of its own.
#[test]
fn server() {
    if let Ok(path) = std::env::var("SERVE") {
        let heap = Heap::open_or_create(path, &options()).unwrap();
        println!();
        queue::serve(&heap, std::io::stdin(), &mut std::io::stdout()).unwrap();
    }
}

#[test]
fn acknowledged_jobs_survive_kills() {
    const DEPTH: usize = 16; // commands without an answer
    let kills = std::env::var("KILLS").map_or(5, |text| text.parse().unwrap());
    let path = std::env::temp_dir().join(format!("libfur-queue-{}.fur", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let (mut there, mut finished) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..kills {
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server", "--nocapture"])
            .env("SERVE", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = server.stdin.take().unwrap();
        let mut from = BufReader::new(server.stdout.take().unwrap()).lines();
        // Jobs that an answer has named and no command has finished; jobs that a command without an
        // answer may have finished.
        let (mut sent, mut taken) = (0, Vec::new());
        let mut asked: BTreeSet<u64> = BTreeSet::new();
        let mut send = |taken: &mut Vec<u64>, asked: &mut BTreeSet<u64>| {
            sent += 1;
            let job = if sent % 3 == 0 { taken.pop() } else { None };
            let _ = match job {
                Some(number) => {
                    asked.insert(number);
                    writeln!(to, "finish {}", number)
                }
                None if sent % 3 == 1 => writeln!(to, "take"),
                None => writeln!(to, "add text {}", sent),
            };
        };
        (0..DEPTH).for_each(|_| send(&mut taken, &mut asked));
        let mut answers = 0;
        for line in from.by_ref().map(Result::unwrap) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = words.get(1).and_then(|word| word.parse().ok());
            match (words[0], number) {
                ("added", Some(number)) => assert!(there.insert(number), "{} twice", number),
                ("job", Some(number)) => {
                    assert!(!finished.contains(&number), "{} is back", number);
                    taken.push(number);
                }
                ("finished", Some(number)) => {
                    asked.remove(&number);
                    there.remove(&number);
                    finished.insert(number);
                }
                ("empty", _) => {}
                _ => continue, // of the test's own
            }
            answers += 1;
            if answers == 100 + 37 * (round % 5) {
                server.kill().unwrap();
            }
            send(&mut taken, &mut asked);
        }
        server.wait().unwrap();
        let heap = Heap::open(&path, &options()).unwrap();
        let me = heap.register().unwrap();
        let jobs = queue::Queue::new(&me).unwrap().jobs(&me).unwrap();
        let found: BTreeSet<u64> = jobs.iter().copied().collect();
        assert_eq!(found.len(), jobs.len(), "a job waits and is taken");
        let lost: Vec<_> =
            there.iter().filter(|job| !found.contains(job) && !asked.contains(job)).collect();
        assert!(lost.is_empty(), "round {}: lost {:?}", round, lost);
        assert!(found.is_disjoint(&finished), "round {}: a finished job is back", round);
        assert!(answers >= 100 && found.len() < there.len() + DEPTH);
        there = found;
    }
    std::fs::remove_file(&path).unwrap();
}
