//! A search engine for notes, on an inverted index: `cargo run --example inverted_index`.
//!
//! The index has a key `<word> 00 <number of the note>` for each word of each note, so that the
//! notes with a word are one prefix, in order. A search for several words walks their prefixes in
//! step, and leaps over the notes that lack a word.

use std::collections::BTreeSet;

use minikv::{Cursor, Db, Keyspace, Readable, Result};

struct Notes {
    db: Db,
    texts: Keyspace,
    index: Keyspace,
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Returns the key of a word in a note. Numbers are big-endian, so that their order is that of the
/// keys.
fn index_key(word: &str, note: u64) -> Vec<u8> {
    [word.as_bytes(), &[0], &note.to_be_bytes()].concat()
}

/// Returns the first note from number `from` on that has the word.
fn next_note(index: &mut Cursor, word: &str, from: u64) -> Result<Option<u64>> {
    if !index.seek(index_key(word, from))? {
        return Ok(None);
    }
    let number = index.key().strip_prefix(word.as_bytes()).and_then(|rest| rest.strip_prefix(&[0]));
    Ok(number.map(|number| u64::from_be_bytes(number.try_into().expect("8 bytes"))))
}

impl Notes {
    fn open(db: Db) -> Result<Notes> {
        let (texts, index) = (db.keyspace("texts")?, db.keyspace("index")?);
        Ok(Notes { db, texts, index })
    }

    /// Adds or replaces a note. The transaction makes sure that the index matches the texts, also
    /// if several threads replace the same note.
    fn put(&self, note: u64, text: &str) -> Result<()> {
        self.db.transact(|tx| {
            let old = tx.keyspace(&self.texts).get(note.to_be_bytes())?;
            let old = old.map_or(BTreeSet::new(), |old| words(&String::from_utf8_lossy(&old)));
            let new = words(text);
            for word in old.difference(&new) {
                tx.delete_in(&self.index, index_key(word, note));
            }
            for word in new.difference(&old) {
                tx.put_in(&self.index, index_key(word, note), "");
            }
            tx.put_in(&self.texts, note.to_be_bytes(), text);
            Ok(())
        })
    }

    /// Returns the notes that have all words of `query`.
    fn search(&self, query: &str) -> Result<Vec<u64>> {
        let words = words(query);
        // All cursors show the same moment, whatever is written meanwhile.
        let snapshot = self.db.snapshot();
        let index = snapshot.keyspace("index")?;
        let mut cursors = Vec::new();
        for word in &words {
            cursors.push((word, index.cursor()?));
        }
        let (mut found, mut from) = (Vec::new(), 0);
        while !cursors.is_empty() {
            // The candidate is the largest of the words' next notes.
            let mut candidate = from;
            for (word, cursor) in &mut cursors {
                match next_note(cursor, word, candidate)? {
                    Some(note) => candidate = note,
                    None => return Ok(found),
                }
            }
            if candidate == from {
                found.push(from); // every word has it
                candidate += 1;
            }
            from = candidate;
        }
        Ok(found)
    }
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let notes = Notes::open(Db::create(home.path().join("db"))?)?;
    notes.put(1, "Red apples, green apples")?;
    notes.put(2, "A green house with a red door")?;
    notes.put(3, "Applesauce is made of green apples")?;
    for query in ["apples", "green apples", "red green", "blue"] {
        println!("{query}: {:?}", notes.search(query)?);
    }
    assert_eq!(notes.search("green apples")?, [1, 3]);

    notes.put(1, "Yellow bananas")?;
    assert_eq!(notes.search("apples")?, [3]);
    assert_eq!(notes.search("BANANAS yellow")?, [1]);
    println!("{} words in notes", notes.index.iter().count());
    Ok(())
}
