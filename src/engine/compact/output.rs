//! The output tables of a merge, and where one ends.

use std::sync::Arc;

use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::version::tombstones::Contents;
use crate::engine::version::{TableFile, Version};
use crate::format::edit::{NUM_LEVELS, NewFile};
use crate::format::key::{ParsedKey, UserComparator};
use crate::format::name;
use crate::table::builder::TableBuilder;

/// Moves through the tables of a level along with a merge, whose keys only ascend.
pub(super) struct Follower<'a> {
    files: &'a [Arc<TableFile>],
    at: usize,
}

impl<'a> Follower<'a> {
    pub(super) fn new(version: &'a Version, level: usize) -> Follower<'a> {
        let files = if level < NUM_LEVELS { version.level(level) } else { &[] };
        Follower { files, at: 0 }
    }

    /// Moves past the tables that end before `key`: their bytes.
    pub(super) fn advance(&mut self, order: &UserComparator, key: &[u8]) -> u64 {
        let mut passed = 0;
        while let Some(file) = self.files.get(self.at)
            && order.compare(file.last_key(), key).is_lt()
        {
            passed += file.file_bytes;
            self.at += 1;
        }
        passed
    }

    /// Whether a table's range holds `key`.
    pub(super) fn may_hold(&mut self, order: &UserComparator, key: &[u8]) -> bool {
        self.advance(order, key);
        self.files.get(self.at).is_some_and(|file| order.compare(file.first_key(), key).is_le())
    }
}

/// The tables a merge has written, and the one it is writing.
pub struct Outputs<'a> {
    engine: &'a Engine,
    level: usize,
    done: Vec<NewFile>,
    /// What is in them, by number.
    contents: Vec<(u64, Contents)>,
    pub(super) open: Option<Output>,
    /// The numbers of all tables that may have a file.
    numbers: Vec<u64>,
}

pub(super) struct Output {
    number: u64,
    builder: TableBuilder,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    contents: Contents,
}

impl<'a> Outputs<'a> {
    /// None yet; they are to be tables of `level`.
    pub fn new(engine: &'a Engine, level: usize) -> Outputs<'a> {
        let (done, contents, numbers) = (Vec::new(), Vec::new(), Vec::new());
        Outputs { engine, level, done, contents, open: None, numbers }
    }

    pub(super) fn add(&mut self, key: &[u8], entry: &ParsedKey<'_>, value: &[u8]) -> Result<()> {
        let output = match &mut self.open {
            Some(output) => output,
            None => {
                let engine = self.engine;
                let number = engine.numbers.take();
                // Known before it is made, so that a failure removes it.
                self.numbers.push(number);
                let path = engine.dir.join(name::table_name(number));
                let file =
                    engine.fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
                let options = engine.options.table_options(&engine.reads.order, self.level);
                self.open.insert(Output {
                    number,
                    builder: TableBuilder::new(file, path, options),
                    smallest: key.to_vec(),
                    largest: Vec::new(),
                    contents: Contents::default(),
                })
            }
        };
        output.builder.add(key, value)?;
        output.contents.add(entry);
        output.largest.clear();
        output.largest.extend_from_slice(key);
        Ok(())
    }

    pub(super) fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |output| output.builder.file_bytes())
    }

    pub(super) fn end_table(&mut self) -> Result<()> {
        let Some(output) = self.open.take() else { return Ok(()) };
        let number = output.number;
        self.contents.push((number, output.contents));
        self.done.push(NewFile {
            level: self.level,
            number,
            file_bytes: 0,
            smallest: output.smallest,
            largest: output.largest,
        });
        let summary = output.builder.finish()?;
        if let Some(done) = self.done.last_mut() {
            done.file_bytes = summary.file_bytes;
        }
        Ok(())
    }

    /// The tables, all ended, and what is in each, by number.
    pub fn into_files(self) -> (Vec<NewFile>, Vec<(u64, Contents)>) {
        (self.done, self.contents)
    }

    /// The numbers of all tables that may have a file.
    pub fn into_numbers(self) -> impl Iterator<Item = u64> {
        self.numbers.into_iter()
    }
}
