//! Sorted runs of entries in files, and their merge: the second half of an external sort.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{CliError, Result};
use crate::output::Progress;

/// A key and a value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Sorted entries in a file: key length, value length (8 bytes each, little-endian), key, value.
pub struct Run {
    path: PathBuf,
    bytes: u64,
}

impl Run {
    /// Writes `entries`, which must be sorted, to a new file.
    pub fn write(path: PathBuf, entries: &[Entry]) -> Result<Run> {
        let mut writer = RunWriter::create(path)?;
        entries.iter().try_for_each(|(key, value)| writer.add(key, value))?;
        writer.finish()
    }
}

struct RunWriter {
    file: BufWriter<File>,
    run: Run,
}

impl RunWriter {
    fn create(path: PathBuf) -> Result<RunWriter> {
        let file = File::create_new(&path).map_err(|error| CliError::io("create", &path, error))?;
        Ok(RunWriter { file: BufWriter::new(file), run: Run { path, bytes: 0 } })
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let lens = [key, value].map(|bytes| (bytes.len() as u64).to_le_bytes());
        let parts = [&lens[0][..], &lens[1], key, value];
        self.run.bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut parts = parts.iter();
        let written = parts.try_for_each(|part| self.file.write_all(part));
        written.map_err(|error| CliError::io("write", &self.run.path, error))
    }

    fn finish(mut self) -> Result<Run> {
        let flushed = self.file.flush();
        flushed.map_err(|error| CliError::io("write", &self.run.path, error))?;
        Ok(self.run)
    }
}

struct RunReader {
    file: BufReader<File>,
    path: PathBuf,
    bytes_left: u64,
}

impl RunReader {
    fn open(run: Run) -> Result<RunReader> {
        let file = File::open(&run.path).map_err(|error| CliError::io("open", &run.path, error))?;
        let file = BufReader::with_capacity(1 << 20, file);
        Ok(RunReader { file, path: run.path, bytes_left: run.bytes })
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        if self.bytes_left == 0 {
            return Ok(None);
        }
        let mut lens = [0; 16];
        let read = self.file.read_exact(&mut lens);
        read.map_err(|error| CliError::io("read", &self.path, error))?;
        let (key, value) = lens.split_at(8);
        let mut bytes = |len: &[u8]| {
            let len = u64::from_le_bytes(len.try_into().expect("eight bytes"));
            let mut bytes = vec![0; len as usize];
            let read = self.file.read_exact(&mut bytes);
            read.map(|()| bytes).map_err(|error| CliError::io("read", &self.path, error))
        };
        let entry = (bytes(key)?, bytes(value)?);
        self.bytes_left -= (lens.len() + entry.0.len() + entry.1.len()) as u64;
        Ok(Some(entry))
    }
}

/// Shows the progress of a merge.
pub struct Merging {
    progress: Progress,
    merged_bytes: Cell<u64>,
}

impl Merging {
    pub fn of(runs: &[Run]) -> Merging {
        let bytes = runs.iter().map(|run| run.bytes).sum();
        let progress = Progress::bytes("merging", Some(bytes));
        Merging { progress, merged_bytes: Cell::new(0) }
    }

    fn add(&self, bytes: u64) {
        self.merged_bytes.update(|merged| merged + bytes);
        self.progress.set(self.merged_bytes.get());
    }
}

/// Merges groups of `width` runs into one run each, repeatedly, until at most `width` runs are
/// left.
pub fn merge_to_few(mut runs: Vec<Run>, folder: &Path, width: usize) -> Result<Vec<Run>> {
    let mut round = 0;
    while runs.len() > width {
        round += 1;
        let progress = Merging::of(&runs);
        let mut merged = Vec::new();
        while !runs.is_empty() {
            let group: Vec<Run> = runs.drain(..width.min(runs.len())).collect();
            let paths: Vec<_> = group.iter().map(|run| run.path.clone()).collect();
            let path = folder.join(format!("run{round}-{}", merged.len()));
            let mut writer = RunWriter::create(path)?;
            merge(group, &progress, |key, value| writer.add(key, value))?;
            merged.push(writer.finish()?);
            for path in paths {
                fs::remove_file(&path).map_err(|error| CliError::io("remove", &path, error))?;
            }
        }
        runs = merged;
    }
    Ok(runs)
}

/// Calls `each` with the entries of all runs in ascending order. If several runs have an entry with
/// the same key, only the entry of the last of these runs is used.
pub fn merge(
    runs: Vec<Run>,
    progress: &Merging,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut runs = runs.into_iter().map(RunReader::open).collect::<Result<Vec<_>>>()?;
    let mut heads = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        heads.extend(run.next()?.map(|(key, value)| Reverse((key, Reverse(at), value))));
    }
    let mut last_key = None;
    while let Some(Reverse((key, Reverse(at), value))) = heads.pop() {
        if last_key.as_ref() != Some(&key) {
            each(&key, &value)?;
            last_key = Some(key);
        }
        let left = runs[at].bytes_left;
        heads.extend(runs[at].next()?.map(|(key, value)| Reverse((key, Reverse(at), value))));
        progress.add(left - runs[at].bytes_left);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &str, value: &str) -> Vec<Entry> {
        keys.bytes().map(|key| (vec![key], value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn runs_are_merged_and_the_last_one_counts() {
        for width in [2, 3, 10] {
            let home = tempfile::tempdir().unwrap();
            let runs = [("ace", "0"), ("abe", "1"), ("", "2"), ("e", "3"), ("ab", "4"), ("z", "5")];
            let write = |(at, (keys, value)): (usize, (&str, &str))| {
                Run::write(home.path().join(at.to_string()), &entries(keys, value)).unwrap()
            };
            let runs: Vec<_> = runs.into_iter().enumerate().map(write).collect();
            let runs = merge_to_few(runs, home.path(), width).unwrap();
            assert!(runs.len() <= width);
            let left = fs::read_dir(home.path()).unwrap().count();
            assert_eq!(left, runs.len(), "runs that were merged are removed");
            let mut merged = String::new();
            let progress = Merging::of(&runs);
            let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
            merge(runs, &progress, |key, value| {
                merged += &format!("{}{} ", key.escape_ascii(), value.escape_ascii());
                Ok(())
            })
            .unwrap();
            assert_eq!(merged, "a4 b4 c0 e3 z5 ", "{width}");
            assert!(progress.merged_bytes.get() <= bytes && progress.merged_bytes.get() > 0);
        }
    }
}
