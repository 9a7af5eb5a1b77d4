// SPDX-License-Identifier: BSD-3-Clause
//! A queue of work that survives.
//!
//!     queue HEAP
//!
//! It reads commands from standard input, and answers each with a line when it is durable:
//!
//!     add TEXT         added NUMBER
//!     take             job NUMBER TEXT, or empty
//!     finish NUMBER    finished NUMBER, or unknown NUMBER
//!
//! A job that was taken and not finished waits again after the next start.

use libfur::{HashMap, Heap, Options, OrderedMap, Thread, Ticket, Update};
use std::io::{BufRead, BufReader, Read, Write};

/// Jobs, in the order of their numbers: a number in big-endian bytes -> the text.
#[derive(Clone, Copy)]
pub struct Queue<'h> {
    waiting: OrderedMap<'h>,
    taken: OrderedMap<'h>,
    state: HashMap<'h>, // "next": the number of the next job
}

type Job = (u64, Vec<u8>);

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("8 bytes"))
}

impl<'h> Queue<'h> {
    pub fn new(me: &Thread<'h>) -> libfur::Result<Queue<'h>> {
        let (waiting, taken) = (me.ordered_map("waiting")?, me.ordered_map("taken")?);
        Ok(Queue { waiting, taken, state: me.hash_map("state")? })
    }
    fn move_first(
        tx: &mut Update,
        from: OrderedMap,
        to: OrderedMap,
    ) -> libfur::Result<Option<Job>> {
        let first = from.first_from(tx, b"")?;
        if let Some((key, text)) = &first {
            from.remove(tx, key)?;
            to.put(tx, key, text)?;
        }
        Ok(first.map(|(key, text)| (number(&key), text)))
    }
    /// What was taken before the program ended waits again.  One update for each job: any log has
    /// room for that.
    pub fn recover(&self, me: &Thread) -> libfur::Result<()> {
        while me
            .update_with_ticket(|tx| Queue::move_first(tx, self.taken, self.waiting))?
            .0
            .is_some()
        {}
        Ok(())
    }
    pub fn add(&self, me: &Thread, text: &[u8]) -> libfur::Result<(u64, Ticket)> {
        me.update_with_ticket(|tx| {
            let next = self.state.get_copy(tx, b"next")?.map_or(1, |bytes| number(&bytes));
            self.state.put(tx, b"next", &(next + 1).to_be_bytes())?;
            self.waiting.put(tx, &next.to_be_bytes(), text)?;
            Ok(next)
        })
    }
    pub fn take(&self, me: &Thread) -> libfur::Result<(Option<Job>, Ticket)> {
        me.update_with_ticket(|tx| Queue::move_first(tx, self.waiting, self.taken))
    }
    pub fn finish(&self, me: &Thread, job: u64) -> libfur::Result<(bool, Ticket)> {
        me.update_with_ticket(|tx| self.taken.remove(tx, &job.to_be_bytes()))
    }
    /// The numbers of all jobs that are not finished.
    #[allow(dead_code)]
    pub fn jobs(&self, me: &Thread) -> libfur::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        me.read(|tx| {
            for map in [self.waiting, self.taken] {
                numbers.extend(map.iter(tx)?.map(|(key, _)| number(key)));
            }
            Ok(numbers)
        })
    }
    fn answer(&self, me: &Thread, line: &str) -> libfur::Result<(String, Option<Ticket>)> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (command, rest.parse()) {
            ("add", _) => {
                let (number, ticket) = self.add(me, rest.as_bytes())?;
                Ok((format!("added {}", number), Some(ticket)))
            }
            ("take", _) => {
                let (job, ticket) = self.take(me)?;
                let answer = job.map_or("empty".to_string(), |(number, text)| {
                    format!("job {} {}", number, String::from_utf8_lossy(&text))
                });
                Ok((answer, Some(ticket)))
            }
            ("finish", Ok(number)) => {
                let (found, ticket) = self.finish(me, number)?;
                let word = if found { "finished" } else { "unknown" };
                Ok((format!("{} {}", word, number), Some(ticket)))
            }
            _ => Ok(("commands: add TEXT, take, finish NUMBER".to_string(), None)),
        }
    }
}

/// Answer all lines.  Those that have come together wait for the disk together.
pub fn serve(
    heap: &Heap,
    input: impl Read,
    output: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let me = heap.register()?;
    let queue = Queue::new(&me)?;
    queue.recover(&me)?;
    let mut input = BufReader::new(input);
    let (mut line, mut answers, mut newest) = (String::new(), String::new(), None);
    while input.read_line(&mut line)? > 0 {
        let (answer, ticket) = queue.answer(&me, line.trim_end())?;
        answers += &answer;
        answers.push('\n');
        newest = ticket.or(newest);
        line.clear();
        if !input.buffer().contains(&b'\n') {
            newest.take().map_or(Ok(()), |ticket| me.wait(ticket))?;
            output.write_all(answers.as_bytes())?;
            output.flush()?;
            answers.clear();
        }
    }
    Ok(())
}

#[allow(dead_code)]
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() != 2 {
        eprintln!("usage: queue HEAP");
        std::process::exit(2);
    }
    let result = Heap::open_or_create(&args[1], &Options::new())
        .map_err(Into::into)
        .and_then(|heap| serve(&heap, std::io::stdin(), &mut std::io::stdout()));
    if let Err(error) = result {
        eprintln!("queue: {}", error);
        std::process::exit(1);
    }
}
