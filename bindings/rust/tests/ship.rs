// SPDX-License-Identifier: BSD-3-Clause
//! Heaps that are shipped: primaries and standbys in processes of their own, and a log in a file.
//!
//! FUR_SHIP and FUR_COPY in the environment: those programs.  Without them there is no test.

mod common;

use common::Place;
use libfur::{code, FollowOptions, Heap, Level, Options, Token};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

fn programs() -> Option<(String, String)> {
    Some((std::env::var("FUR_SHIP").ok()?, std::env::var("FUR_COPY").ok()?))
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{} {:?}: {:?}", program, arguments, done);
    String::from_utf8(done.stdout).unwrap()
}

/// A process that ends with the test.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn new(command: &mut Command) -> Process {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { child, input, output }
    }
    fn ship(program: &str, path: &Path) -> Process {
        Process::new(Command::new(program).arg(path).args(["--beat", "20", "--quiet"]))
    }
    /// This program again, as a standby: see [`a_standby`].
    fn standby(path: &Path) -> Process {
        let program = std::env::current_exe().unwrap();
        let arguments = ["--exact", "a_standby", "--nocapture", "--ignored"];
        Process::new(Command::new(program).args(arguments).env("FUR_TEST_STANDBY", path))
    }
    /// The answer to a line: a line that begins with "> ".
    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{}", line).unwrap();
        loop {
            let line = self.output.next().expect("an answer").unwrap();
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.to_string();
            }
        }
    }
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

static SAID: AtomicU32 = AtomicU32::new(0);

fn said(_: Level, message: &str) {
    assert!(!message.is_empty());
    SAID.fetch_add(1, Ordering::Relaxed);
}

fn numbers(heap: &Heap) -> u64 {
    let me = heap.register().unwrap();
    let map = me.ordered_map("numbers").unwrap();
    me.read(|tx| map.len(tx)).unwrap()
}

/// Not a test: the process of a standby, which answers lines of its input.
#[test]
#[ignore]
fn a_standby() {
    let path = match std::env::var_os("FUR_TEST_STANDBY") {
        Some(path) => path,
        None => return,
    };
    let mut heap = Heap::open(&path, &Options::new()).unwrap();
    let options = FollowOptions::new().log(said).patience_ms(60_000);
    let follower = heap.follow(&options).unwrap();
    let mut lines = std::io::stdin().lock().lines();
    for line in lines.by_ref() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "promote" {
            break;
        }
        let token = Token { lineage: words[1].parse().unwrap(), durts: words[2].parse().unwrap() };
        let patience = if words[0] == "read" { PATIENCE } else { Duration::ZERO };
        match heap.wait_token(token, patience) {
            Ok(()) => println!("> {}", numbers(&heap)),
            Err(error) => println!("> error {}", error.code()),
        }
    }
    let refused = follower.take_over(follower.state().unwrap().term + 1).unwrap_err();
    assert_eq!(refused.code(), code::EFENCED, "{}", refused);
    let state = follower.state().unwrap();
    assert!(state.follows && !state.promoted && state.error.is_none(), "{:?}", state);
    assert!(state.newest.durts > 0 && state.own_node != 0 && state.frame > 0, "{:?}", state);
    follower.take_over(state.term).unwrap();
    assert!(follower.state().unwrap().promoted);
    drop(follower);
    assert!(SAID.load(Ordering::Relaxed) > 0);
    heap.close().unwrap();
    heap = Heap::open(&path, &Options::new()).unwrap();
    println!("> {}", numbers(&heap));
}

/// A heap that is shipped, and a standby.
fn shipped(ship: &str, copy: &str, place: &Place, log: &Place, standby: &Place) {
    let options = Options::new().heap_bytes(16 << 20).log_bytes(1 << 18).max_threads(8);
    let heap = Heap::create(&place.0, &options).unwrap();
    numbers(&heap);
    heap.close().unwrap();
    let log = format!("file:{}", log.0.display());
    run(ship, &["--init", place.0.to_str().unwrap(), "--log", &log, "--quiet"]);
    run(copy, &["--for-standby", place.0.to_str().unwrap(), standby.0.to_str().unwrap()]);
}

#[test]
fn a_standby_reads_own_writes_and_takes_over() {
    let (ship, copy) = match programs() {
        Some(programs) => programs,
        None => return,
    };
    let (place, log, other) = (Place::new(), Place::new(), Place::new());
    shipped(&ship, &copy, &place, &log, &other);
    let mut shipper = Process::ship(&ship, &place.0);
    let heap = Heap::open(&place.0, &Options::new().ack(libfur::Ack::Replicated)).unwrap();
    let me = heap.register().unwrap();
    let map = me.ordered_map("numbers").unwrap();
    assert_eq!(heap.follow(&FollowOptions::new()).unwrap_err().code(), code::EINVAL);
    let mut standby = Process::standby(&other.0);
    let mut token = Token::default();
    for n in 1..=30u64 {
        me.update(|tx| map.put(tx, &n.to_be_bytes(), b"")).unwrap();
        assert_ne!(token, me.get_token().unwrap());
        token = me.get_token().unwrap();
        let asked = format!("read {} {}", token.lineage, token.durts);
        assert_eq!(standby.ask(&asked), n.to_string());
    }
    heap.wait_token(token, PATIENCE).unwrap();
    let later = format!("look {} {}", token.lineage, token.durts + 1000);
    assert_eq!(standby.ask(&later), format!("error {}", code::EBEHIND));
    me.read(|_| {
        assert_eq!(me.get_token().unwrap_err().code(), code::ENESTED);
        assert_eq!(heap.wait_token(token, Duration::ZERO).unwrap_err().code(), code::ENESTED);
        libfur::Result::Ok(())
    })
    .unwrap();
    shipper.kill();
    assert_eq!(standby.ask("promote"), "30");
    assert!(standby.child.wait().unwrap().success());
}

#[test]
fn a_follower_ends_when_it_is_dropped() {
    let (ship, copy) = match programs() {
        Some(programs) => programs,
        None => return,
    };
    let (place, log, other) = (Place::new(), Place::new(), Place::new());
    shipped(&ship, &copy, &place, &log, &other);
    let heap = Heap::open(&other.0, &Options::new()).unwrap();
    let follower = heap.follow(&FollowOptions::new().log(said).setting("no.such", "1")).unwrap();
    assert_eq!(heap.follow(&FollowOptions::new()).unwrap_err().code(), code::EINVAL);
    let state = loop {
        let state = follower.state().unwrap();
        if !state.follows {
            break state;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let error = state.error.expect("it has ended");
    assert!(error.code() == code::EINVAL && error.to_string().contains("no.such=1"), "{}", error);
    assert_eq!(state.unread, None);
    drop(follower);
    let follower = heap.follow(&FollowOptions::new()).unwrap();
    assert!(follower.state().unwrap().error.is_none());
    drop(follower);
    // Of no update: those of the log the follower may have applied before it ended.
    let later = Token { lineage: 0, durts: u64::MAX };
    let error = heap.wait_token(later, Duration::ZERO).unwrap_err();
    assert_eq!(error.code(), code::EINVAL, "{}", error);
    heap.close().unwrap();
}
