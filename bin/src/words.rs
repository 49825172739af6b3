//! Entries to load: the bundled words, or the lines of a file.

use std::collections::BTreeMap;
use std::path::Path;

use minikv_instrument::data::{Data, make_value};

use crate::codec::Format;
use crate::entry_reader::EntryReader;
use crate::error::{CliError, Result};
use crate::input::Lines;

/// 104,334 English words, one per line. `bin/data/WORDS-LICENCE.txt` states their source.
pub static WORDS: &[u8] = include_bytes!("../data/words.txt");

/// Returns the bundled words as keys. Each value states the position of its word in the list.
pub fn bundled() -> Result<Data> {
    let mut lines = Lines::of(WORDS, "words");
    let mut entries = BTreeMap::new();
    while let Some(word) = lines.next_line()? {
        let word = word.to_vec();
        let value = format!("word {} of the list, {} bytes long", entries.len() + 1, word.len());
        entries.insert(word, value.into_bytes());
    }
    let name = "the bundled English words".to_string();
    Ok(Data::Listed { name, entries: entries.into_iter().collect() })
}

/// Reads entries from a file, one entry per line. The lines are in `format`. If `format` is
/// `None`, a line is `KEY` or `KEY<TAB>VALUE` in plain bytes, and a key without a value gets a
/// value of `value_bytes` bytes.
pub fn of_file(path: &Path, format: Option<Format>, value_bytes: usize) -> Result<Data> {
    let path = path.to_path_buf();
    let mut entries = BTreeMap::new();
    match format {
        Some(format) => {
            let mut reader = EntryReader::open(Some(&path), format)?;
            while let Some((key, value)) = reader.next()? {
                entries.insert(key, value);
            }
        }
        None => {
            let mut lines = Lines::open(Some(&path))?.of_any_bytes();
            while let Some(line) = lines.next_line()? {
                let (key, value) = match line.iter().position(|&byte| byte == b'\t') {
                    Some(tab) => (line[..tab].to_vec(), line[tab + 1..].to_vec()),
                    None => (line.to_vec(), make_value(entries.len() as u64, value_bytes)),
                };
                entries.insert(key, value);
            }
        }
    }
    if entries.is_empty() {
        return Err(CliError::Usage(format!("{} has no entries", path.display())));
    }
    let name = path.display().to_string();
    Ok(Data::Listed { name, entries: entries.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use minikv_instrument::random::Rng;

    use super::*;

    #[test]
    fn absent_words_are_near_misses_in_the_range() {
        let data = bundled().unwrap();
        let mut rng = Rng::new(1);
        let (first, last) = (data.key(0), data.key(data.len() - 1));
        for key in (0..5000).map(|i| data.one_absent(i, &mut rng)) {
            assert!(first < key && key < last);
            assert!(key.len() <= 61, "{key:?}");
        }
    }
}
