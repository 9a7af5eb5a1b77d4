// SPDX-License-Identifier: BSD-3-Clause
//! Names and numbers that survive; examples/phonebook.c in Rust.
//!
//!     phonebook HEAP NAME NUMBER     remember
//!     phonebook HEAP NAME            all names from NAME on

use libfur::{Heap, Options};

fn run(args: &[String]) -> libfur::Result<()> {
    let heap = Heap::open_or_create(&args[1], &Options::new())?;
    let me = heap.register()?;
    let book = me.ordered_map("book")?;
    if let Some(number) = args.get(3) {
        let added = me.update(|tx| book.put(tx, args[2].as_bytes(), number.as_bytes()))?;
        println!("{}", if added { "added" } else { "changed" });
    } else {
        let mut lines = Vec::new();
        me.read(|tx| {
            let text = String::from_utf8_lossy;
            let found = book.range_from(tx, args[2].as_bytes())?;
            lines.extend(found.map(|(name, number)| format!("{} {}", text(name), text(number))));
            libfur::Result::Ok(())
        })?;
        // After the transaction: updates wait for readers.
        lines.iter().for_each(|line| println!("{}", line));
    }
    heap.close()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() != 3 && args.len() != 4 {
        eprintln!("usage: phonebook HEAP NAME [NUMBER]");
        std::process::exit(2);
    }
    if let Err(error) = run(&args) {
        eprintln!("phonebook: {}", error);
        std::process::exit(1);
    }
}
