//! Loading by tables that are written outside of the database, for `load --sorted` and
//! `load --sort`.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use minikv::{Error, Options, SortedTable, TableWriter};

use super::count;
use crate::args::Global;
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::input::Lines;
use crate::interrupt;
use crate::keyspace::{Name, Target};
use crate::output::{self, Progress};

/// Name of the folder, in the database's directory, of the files that are written on the way.
const FOLDER: &str = "minikv-load";

/// Size of the entries that are sorted in memory at a time, in bytes. More of them take more memory
/// and make fewer files to merge.
const CHUNK_BYTES: usize = 256 << 20;

/// Largest number of files that are merged at a time. More of them take more memory and open files,
/// and are read fewer times.
const MERGE_WIDTH: usize = 64;

/// Bytes of memory that an entry takes beside its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 80;

type Entry = (Vec<u8>, Vec<u8>);

/// Loads all lines at once, or none: `sort` says whether they come in any order.
pub fn run(global: &Global, name: &Name, mut lines: Lines, sort: bool) -> Result<()> {
    if sort {
        global.needs_byte_order("--sort")?;
    }
    let db = super::open(global, true)?;
    let target = name.of_writer(&db)?;
    let options = global.options(db.path())?;
    let folder = Folder::create(db.path())?;
    let path = folder.0.clone();
    let guard = interrupt::on_interrupt(move || {
        let _ = fs::remove_dir_all(&path);
        output::say("minikv: interrupted; nothing was loaded");
    });
    let mut source = Source { lines: &mut lines, format: global.format(), target };
    let written = match sort {
        true => source.sort(&folder.0, &options, CHUNK_BYTES),
        false => source.write_tables(&folder.0, &options),
    };
    let tables = written.map_err(|error| error.after("nothing was loaded".to_owned()))?;
    drop(guard);
    let ingested = db.ingest(&tables)?;
    drop(folder);
    db.close()?;
    let tables = count(ingested.tables, "table", "tables");
    output::say(format!("loaded {} in {tables}", count(ingested.entries, "entry", "entries")));
    Ok(())
}

/// The folder for files that are written on the way; removed when dropped. The database's lock
/// keeps others from using it.
struct Folder(PathBuf);

impl Folder {
    fn create(db: &Path) -> Result<Folder> {
        let dir = db.join(FOLDER);
        // What a load that was killed left. A link is not followed.
        if fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&dir).map_err(|error| CliError::io("remove", &dir, error))?;
        }
        fs::create_dir(&dir).map_err(|error| CliError::io("create", &dir, error))?;
        Ok(Folder(dir))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Source<'a> {
    lines: &'a mut Lines,
    format: Format,
    target: Target,
}

impl Source<'_> {
    /// Returns the next entry, or `None` at the end.
    fn next(&mut self) -> Result<Option<Entry>> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        match self.format.decode_entry(line) {
            Ok(entry) => Ok(Some(entry)),
            Err(what) => Err(self.refuse(what)),
        }
    }

    fn refuse(&self, what: impl std::fmt::Display) -> CliError {
        CliError::Usage(format!("{}: {what}", self.lines.place()))
    }

    /// Writes entries that come in ascending order.
    fn write_tables(&mut self, folder: &Path, options: &Options) -> Result<Vec<SortedTable>> {
        let progress = Progress::bytes("loading", self.lines.total_bytes());
        let mut writer = TableWriter::create(folder.join("tables"), options)?;
        while let Some((key, value)) = self.next()? {
            match self.target.put_in_table(&mut writer, &key, &value) {
                Err(Error::InvalidArgument { what }) => {
                    return Err(self.refuse(format!("{what} (--sort sorts)")));
                }
                added => added?,
            }
            progress.set(self.lines.bytes_read());
        }
        Ok(writer.finish()?)
    }

    /// Writes entries that come in any order. Of entries with the same key the last one counts.
    fn sort(
        &mut self,
        folder: &Path,
        options: &Options,
        chunk_bytes: usize,
    ) -> Result<Vec<SortedTable>> {
        let progress = Progress::bytes("sorting", self.lines.total_bytes());
        let mut runs = Vec::new();
        loop {
            let chunk = self.next_chunk(chunk_bytes, &progress)?;
            if chunk.is_empty() {
                break;
            }
            let path = folder.join(format!("run0-{}", runs.len()));
            runs.push(Run::write(path, &chunk)?);
        }
        drop(progress);
        let runs = merge_to_few(runs, folder, MERGE_WIDTH)?;
        let mut writer = TableWriter::create(folder.join("tables"), options)?;
        let progress = Merging::of(&runs);
        merge(runs, &progress, |key, value| {
            Ok(self.target.put_in_table(&mut writer, key, value)?)
        })?;
        Ok(writer.finish()?)
    }

    /// Returns the next entries of about `chunk_bytes`, sorted, one of each key.
    fn next_chunk(&mut self, chunk_bytes: usize, progress: &Progress) -> Result<Vec<Entry>> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while bytes < chunk_bytes
            && let Some((key, value)) = self.next()?
        {
            bytes += key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
            chunk.push((key, value));
            progress.set(self.lines.bytes_read());
        }
        chunk.reverse();
        chunk.sort_by(|a, b| a.0.cmp(&b.0));
        // The sort is stable, so the last of several entries of a key is the first now.
        chunk.dedup_by(|next, first| next.0 == first.0);
        Ok(chunk)
    }
}

/// Sorted entries in a file: key length, value length (8 bytes each, little-endian), key, value.
struct Run {
    path: PathBuf,
    bytes: u64,
}

impl Run {
    fn write(path: PathBuf, entries: &[Entry]) -> Result<Run> {
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

/// Shows how much of some runs is merged.
struct Merging {
    progress: Progress,
    merged_bytes: Cell<u64>,
}

impl Merging {
    fn of(runs: &[Run]) -> Merging {
        let bytes = runs.iter().map(|run| run.bytes).sum();
        let progress = Progress::bytes("merging", Some(bytes));
        Merging { progress, merged_bytes: Cell::new(0) }
    }

    fn add(&self, bytes: u64) {
        self.merged_bytes.update(|merged| merged + bytes);
        self.progress.set(self.merged_bytes.get());
    }
}

/// Merges each `width` runs into one, again and again, until there are at most `width`.
fn merge_to_few(mut runs: Vec<Run>, folder: &Path, width: usize) -> Result<Vec<Run>> {
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

/// Calls `each` with the entries of all runs in ascending order. Of several entries of a key, the
/// one of the last run counts.
fn merge(
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
    use minikv::Db;

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

    #[test]
    fn entries_are_sorted_in_chunks() {
        let home = tempfile::tempdir().unwrap();
        // Each key comes twice, in chunks that are far apart.
        let line = |i: u32| format!("k{:05}\t{i}\n", i * 7919 % 5000);
        let text: String = (0..10_000).map(line).collect();
        let mut lines = Lines::of(text.leak().as_bytes(), "text");
        let options = Options::default().create_if_missing(true);
        let db = Db::open(home.path().join("db"), options.clone()).unwrap();
        let target = Target::All(db.clone());
        let mut source = Source { lines: &mut lines, format: Format::Escaped, target };
        let tables = source.sort(home.path(), &options, 8000).unwrap();
        let runs = fs::read_dir(home.path()).unwrap().count();
        assert!((3..=MERGE_WIDTH + 2).contains(&runs), "{runs} files");
        db.ingest(&tables).unwrap();
        assert_eq!(db.iter().unwrap().count(), 5000);
        for (entry, i) in db.iter().unwrap().zip(0u32..) {
            let (key, value) = entry.unwrap();
            assert_eq!(key, format!("k{i:05}"));
            let value: u32 = std::str::from_utf8(&value).unwrap().parse().unwrap();
            assert!(value >= 5000 && value * 7919 % 5000 == i, "{value} of {i}");
        }
    }
}
