//! Writing one table of a program's own keys.

use std::path::PathBuf;

use crate::base::Result;
use crate::engine::options::Options;
use crate::format::key::{InternalComparator, KeyOrder, UserComparator};
use crate::fs::WriteFile;
use crate::table::builder::TableBuilder;

/// Writes one table with keys of the program's own, like LevelDB's `TableBuilder`. Such a table is
/// not a database's, whose tables have internal keys: [`TableReader::open_single`] reads it, and
/// [`bulk::TableWriter`](crate::bulk::TableWriter) writes tables for a database.
///
/// Dropping the builder without calling [`SingleTableBuilder::finish`] abandons the table, and the
/// caller must remove the file. After an I/O error, every further call returns that error.
///
/// ```
/// use minikv::Options;
/// use minikv::files::{SingleTableBuilder, TableReader};
/// use minikv::fs::{Fs, MemFs};
/// use std::path::Path;
///
/// let (fs, options) = (MemFs::new(), Options::default());
/// let path = Path::new("/fruit");
/// let mut builder = SingleTableBuilder::new(fs.create(path)?, path, &options)?;
/// builder.add(b"apple", b"red")?;
/// builder.add(b"banana", b"yellow")?;
/// builder.finish()?;
///
/// let table = TableReader::open_single(fs.open(path)?, path, &options)?;
/// let mut cursor = table.cursor();
/// assert!(cursor.seek(b"b")?);
/// assert_eq!((cursor.key(), cursor.value()), (&b"banana"[..], &b"yellow"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`TableReader::open_single`]: crate::files::TableReader::open_single
#[doc(alias = "TableBuilder")]
#[derive(Debug)]
pub struct SingleTableBuilder {
    builder: TableBuilder,
}

impl SingleTableBuilder {
    /// Creates a builder that writes to `file`, which must be empty. `path` appears in errors. Uses
    /// the comparator, the filters, the size and restart interval of blocks, and the compression
    /// from `options`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) with the name of the option, if an
    /// option has a value that is not allowed.
    pub fn new(
        file: Box<dyn WriteFile>,
        path: impl Into<PathBuf>,
        options: &Options,
    ) -> Result<SingleTableBuilder> {
        let options = options.clone().checked()?;
        let order = InternalComparator::new(options.comparator.clone());
        let mut table = options.table_options(&order, 0);
        table.order = KeyOrder::User(UserComparator::new(options.comparator.clone()));
        Ok(SingleTableBuilder { builder: TableBuilder::new(file, path.into(), table) })
    }

    /// Adds an entry, whose key must come after the key before it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), if the key does not come after
    /// the one before, or if the key or the value is longer than 3 GiB - 1; the builder remains
    /// usable. An I/O error.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.builder.add(key, value)
    }

    /// Ends the current data block, so that the next entry begins another. Does nothing if the
    /// block is empty.
    ///
    /// # Errors
    /// An I/O error.
    pub fn end_data_block(&mut self) -> Result<()> {
        self.builder.end_data_block()
    }

    /// Returns the size of the data blocks so far, in bytes. The unfinished block counts with its
    /// uncompressed size.
    pub fn file_bytes(&self) -> u64 {
        self.builder.file_bytes()
    }

    /// Writes the remaining parts, and syncs and closes the file. Syncing the directory is left to
    /// the caller. Returns the size of the file, in bytes.
    ///
    /// # Errors
    /// An I/O error, after which the file is not a valid table.
    pub fn finish(self) -> Result<u64> {
        Ok(self.builder.finish()?.file_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::base::{BytewiseComparator, Comparator, Error};
    use crate::files::TableReader;
    use crate::format::compress::Compression;
    use crate::fs::{Fs, MemFs};

    /// The order of bytes from the last to the first.
    #[derive(Debug)]
    struct Backwards;

    impl Comparator for Backwards {
        fn name(&self) -> &str {
            "backwards"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.cmp(a)
        }
    }

    fn table(options: &Options, keys: &[String]) -> (u64, TableReader) {
        let (fs, path) = (MemFs::new(), Path::new("/table"));
        let mut builder = SingleTableBuilder::new(fs.create(path).unwrap(), path, options).unwrap();
        for key in keys {
            builder.add(key.as_bytes(), key.as_bytes()).unwrap();
        }
        let bytes = builder.finish().unwrap();
        (bytes, TableReader::open_single(fs.open(path).unwrap(), path, options).unwrap())
    }

    #[test]
    fn a_table_holds_the_keys_as_they_were_given() {
        let mut keys: Vec<String> = (0..1000).map(|n| format!("{n:04}")).collect();
        for order in [Arc::new(BytewiseComparator) as Arc<dyn Comparator>, Arc::new(Backwards)] {
            let options = Options::default().comparator(order).block_bytes(256);
            let options = options.compression(Compression::None);
            let (bytes, table) = table(&options, &keys);
            assert_eq!(table.file_bytes(), bytes);
            let mut cursor = table.cursor();
            let mut valid = cursor.seek_to_first().unwrap();
            for key in &keys {
                assert!(valid);
                assert_eq!((cursor.key(), cursor.value()), (key.as_bytes(), key.as_bytes()));
                valid = cursor.next().unwrap();
            }
            assert!(!valid);
            let offsets = keys.iter().map(|key| table.approximate_offset_of(key.as_bytes()));
            let offsets: Vec<u64> = offsets.map(Result::unwrap).collect();
            assert!(offsets.is_sorted() && offsets[0] == 0);
            assert!(offsets[999] > bytes / 2 && offsets[999] < bytes);
            keys.reverse();
        }
    }

    #[test]
    fn filters_are_of_the_whole_keys() {
        let keys: Vec<String> = (0..100).map(|n| format!("a key of its own {n:02}")).collect();
        let (_, own) = table(&Options::default(), &keys);
        let filter = own.filter_block().unwrap();
        assert!(keys.iter().all(|key| filter.key_may_match(0, key.as_bytes())));
        assert!(!filter.key_may_match(0, &keys[0].as_bytes()[..11]));
    }

    #[test]
    fn keys_must_ascend_and_options_be_allowed() {
        let (fs, path) = (MemFs::new(), Path::new("/table"));
        let create =
            |options: Options| SingleTableBuilder::new(fs.create(path).unwrap(), path, &options);
        let mut builder = create(Options::default()).unwrap();
        builder.add(b"b", b"").unwrap();
        assert!(matches!(builder.add(b"a", b""), Err(Error::InvalidArgument { .. })));
        builder.add(b"c", b"").unwrap();
        let refused = create(Options::default().block_bytes(0)).unwrap_err();
        assert!(refused.to_string().contains("block_bytes"), "{refused}");
    }
}
