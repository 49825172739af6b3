//! The compression of a database's tables: what the existing tables have, and what new tables get.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::base::{Error, Result};
use crate::engine::options::Options;
use crate::format::compress::{Compression, Method};
use crate::format::handle::BlockHandle;
use crate::format::name;
use crate::fs::Fs;
use crate::table::compression::{compression_of, compression_of_blocks};

/// Number of tables that are examined to find a compressed one. A higher number makes it slower to
/// open a database without compression.
const MAX_TABLES: usize = 8;

/// The compression of a database's new tables, and of the tables that it had when it was opened.
/// [`Db::compression`](crate::Db::compression) returns it.
///
/// A table is readable to programs that know its compression:
///
/// | compression | who reads it |
/// | --- | --- |
/// | none | everyone |
/// | snappy | LevelDB, goleveldb and Chromium, but not Minecraft, and not Bitcoin Core |
/// | zstd | LevelDB after 1.23 |
/// | zlib, deflate | Minecraft |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCompression {
    /// The compression of new tables.
    pub new: Compression,
    /// Names of the compressions of the newest and of the oldest compressed table: `snappy`,
    /// `zstd`, `zlib` or `deflate`. One name if both are the same; `none` if the tables are not
    /// compressed, although they could be. Empty if the tables are too small to show a compression,
    /// or if there are none.
    pub found: Vec<&'static str>,
    /// The methods in `found`.
    methods: Vec<Method>,
}

impl TableCompression {
    /// Decides on the compression of new tables: the one that the options name, or else the one of
    /// the newest compressed table, or else none if the tables are not compressed, or else snappy.
    /// `tables` are the numbers of all tables, each with the undamaged data blocks if the table was
    /// found to be damaged.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the options name no compression, and that of the tables is not
    /// included in this build; an I/O error that prevents the decision. Damaged tables are left
    /// out.
    pub(crate) fn decide<'a>(
        fs: &dyn Fs,
        dir: &Path,
        options: &Options,
        tables: impl Iterator<Item = (u64, &'a [BlockHandle])>,
    ) -> Result<TableCompression> {
        let mut tables: Vec<_> = tables.collect();
        tables.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let newest = tables.iter().take(MAX_TABLES).copied();
        let oldest = tables.iter().rev().take(MAX_TABLES).copied();
        let found = first_compressed(fs, dir, newest).and_then(|newest| {
            let more = newest.is_some() && tables.len() > 1;
            let oldest = more.then(|| first_compressed(fs, dir, oldest)).transpose()?;
            Ok((newest, oldest.flatten()))
        });
        let (newest, oldest) = match (found, options.compression) {
            // The choice does not depend on the tables, which may be readable later.
            (Err(_), Some(_)) => (None, None),
            (found, _) => found?,
        };
        let new = match (options.compression, &newest) {
            (Some(compression), _) => compression,
            (None, None) => Compression::default(),
            (None, Some((method, path))) => {
                method.compression().map_err(|error| error.in_file(path))?
            }
        };
        let mut methods: Vec<Method> =
            [newest, oldest].into_iter().flatten().map(|f| f.0).collect();
        methods.dedup();
        let found = methods.iter().map(|method| method.name()).collect();
        Ok(TableCompression { new, found, methods })
    }

    /// Returns a sentence for the user if a program that reads the tables that were found cannot
    /// read the new ones, or if no other program can read all tables.
    pub fn warning(&self) -> Option<String> {
        let new = self.new.method();
        let tables = self.found.join(" and ");
        let old = self.methods.first().copied();
        if let Some(who) = excluded(new, old.unwrap_or(Method::Snappy)) {
            let new = new.name();
            let text = match old {
                None => format!("new tables are compressed with {new}"),
                Some(_) => {
                    format!("the tables so far are compressed with {tables}, new ones with {new}")
                }
            };
            return Some(format!("{text}, which {who} cannot read"));
        }
        let is_mixed = self.methods.iter().any(|method| is_leveldb(*method))
            && self.methods.iter().any(|method| is_minecraft(*method));
        is_mixed.then(|| {
            format!(
                "some tables are compressed with {}, others with {}, and hardly any program reads \
                 both; new ones get {}, and a compaction of everything leaves only those",
                self.found[0],
                self.found[1],
                new.name()
            )
        })
    }
}

/// Returns the method and the path of the first of the tables that is compressed. If there is none,
/// returns the first table that shows that it is not.
fn first_compressed<'a>(
    fs: &dyn Fs,
    dir: &Path,
    tables: impl Iterator<Item = (u64, &'a [BlockHandle])>,
) -> Result<Option<(Method, PathBuf)>> {
    let (mut failed, mut plain) = (None, None);
    for (number, blocks) in tables {
        let mut path = dir.join(name::table_name(number));
        let file = fs.open(&path).or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            path = dir.join(name::legacy_table_name(number));
            fs.open(&path)
        });
        let file = file.map_err(|error| Error::io("open", &path, error));
        let method = file.and_then(|file| match compression_of(&*file, &path) {
            Err(Error::Corruption(_)) => compression_of_blocks(&*file, &path, blocks),
            method => method,
        });
        match method {
            Ok(Some(Method::None)) => plain = plain.or(Some((Method::None, path))),
            Ok(Some(method)) => return Ok(Some((method, path))),
            Ok(None) | Err(Error::Corruption(_)) => {}
            Err(error @ Error::Unsupported { .. }) => return Err(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    // Without this error, a disk that fails to read for a moment would change the compression.
    failed.map_or(Ok(plain), Err)
}

fn is_leveldb(method: Method) -> bool {
    matches!(method, Method::Snappy | Method::Zstd)
}

fn is_minecraft(method: Method) -> bool {
    matches!(method, Method::Zlib | Method::Deflate)
}

/// Returns the programs that read tables of the method `old`, but not of the method `new`.
fn excluded(new: Method, old: Method) -> Option<&'static str> {
    match (new, old) {
        (new, old) if new == old || new == Method::None => None,
        (new, old) if is_minecraft(new) && is_minecraft(old) => None,
        (_, old) if is_minecraft(old) => Some("Minecraft"),
        (Method::Snappy, Method::None) => {
            Some("a program whose LevelDB is built without snappy, such as Bitcoin Core,")
        }
        (Method::Snappy, _) => None,
        (Method::Zstd, _) => Some("LevelDB 1.23 and older, and goleveldb,"),
        _ => Some("LevelDB and goleveldb"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fs::MemFs;
    use crate::{Db, SortedTable, TableWriter};

    fn on(fs: &MemFs) -> Options {
        Options::default().create_if_missing(true).fs(Arc::new(fs.clone()))
    }

    /// Writes a table of entries that begin with `prefix`, with these options.
    fn write_table(options: Options, prefix: &str) {
        let db = Db::open("/db", options).unwrap();
        put_entries(&db, prefix);
        db.flush().unwrap();
        db.close().unwrap();
    }

    fn put_entries(db: &Db, prefix: &str) {
        (0..500).for_each(|i| db.put(format!("{prefix}{i:05}"), "text text text").unwrap());
    }

    /// Returns the methods of all tables in the directory, oldest first.
    fn methods(fs: &MemFs) -> Vec<Method> {
        let mut tables: Vec<_> = fs.list(Path::new("/db")).unwrap();
        tables.retain(|name| name.ends_with(".ldb"));
        tables.sort();
        let method = |name| {
            let path = Path::new("/db").join(name);
            compression_of(&*fs.open(&path).unwrap(), &path).unwrap().unwrap()
        };
        tables.into_iter().map(method).collect()
    }

    /// Returns the path and the contents of the newest table.
    fn last_table(fs: &MemFs) -> (PathBuf, Vec<u8>) {
        let mut tables: Vec<_> = fs.list(Path::new("/db")).unwrap();
        tables.retain(|name| name.ends_with(".ldb"));
        let path = Path::new("/db").join(tables.iter().max().unwrap());
        let file = fs.open(&path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        (path, bytes)
    }

    /// Returns every compression of this build, with its method.
    fn every() -> Vec<(Compression, Method)> {
        let all = ["none", "snappy", "zstd", "zlib", "deflate"].into_iter();
        let all: Vec<_> = all.filter_map(|name| name.parse::<Compression>().ok()).collect();
        all.into_iter().map(|compression| (compression, compression.method())).collect()
    }

    #[test]
    fn new_databases_get_snappy() {
        let fs = MemFs::new();
        let db = Db::open("/db", on(&fs)).unwrap();
        assert_eq!((db.compression().new, db.compression().found.len()), (Compression::Snappy, 0));
        assert_eq!(db.compression().warning(), None);
        drop(db);
        write_table(on(&fs), "a");
        assert_eq!(methods(&fs), [Method::Snappy]);
    }

    #[test]
    fn flushes_compactions_and_repairs_keep_the_compression_of_the_tables() {
        for (compression, method) in every() {
            let fs = MemFs::new();
            write_table(on(&fs).compression(compression), "a");
            write_table(on(&fs), "b");
            assert_eq!(methods(&fs), [method, method], "a flush");

            let db = Db::open("/db", on(&fs)).unwrap();
            assert_eq!(db.compression().found, [method.name()]);
            assert_eq!(db.compression().warning(), None);
            db.delete("a00000").unwrap();
            db.compact_range::<&str>(..).unwrap();
            db.close().unwrap();
            assert_eq!(methods(&fs), [method], "a compaction");

            // The repair writes the undamaged blocks to a new table.
            let (table, bytes) = last_table(&fs);
            let mut file = fs.create(&table).unwrap();
            file.write(&bytes[..100]).unwrap();
            file.write(&[!bytes[100]]).unwrap();
            file.write(&bytes[101..]).unwrap();
            drop(file);
            let report = crate::repair("/db", &on(&fs), Default::default()).unwrap();
            assert!(!report.new_tables.is_empty(), "{report:?}");
            assert_eq!(methods(&fs), [method], "a repair");
        }
    }

    #[test]
    fn a_repair_of_tables_without_an_index_keeps_the_compression_of_their_blocks() {
        for (compression, method) in every() {
            let fs = MemFs::new();
            write_table(on(&fs).compression(compression), "a");
            let (table, bytes) = last_table(&fs);
            fs.create(&table).unwrap().write(&bytes[..bytes.len() - 60]).unwrap();
            let report = crate::repair("/db", &on(&fs), Default::default()).unwrap();
            assert!(!report.new_tables.is_empty(), "{report:?}");
            assert_eq!(methods(&fs), [method]);
        }
    }

    #[test]
    fn tables_of_another_compression_are_rewritten_by_an_ingest() {
        for (compression, method) in every() {
            let fs = MemFs::new();
            write_table(on(&fs).compression(compression), "a");
            let ingest = |dir: &str, options: &Options, open: bool| {
                let mut writer = TableWriter::create(dir, options).unwrap();
                (0..500).for_each(|i| writer.put(format!("b{i:05}"), "text text text").unwrap());
                let mut tables = writer.finish().unwrap();
                if open {
                    tables = vec![SortedTable::open(tables[0].path(), options).unwrap()];
                }
                let db = Db::open("/db", on(&fs)).unwrap();
                let rewritten = db.ingest(&tables).unwrap().rewritten_tables;
                db.close().unwrap();
                (rewritten, methods(&fs).pop().unwrap())
            };
            let is_snappy = method == Method::Snappy;
            assert_eq!(ingest("/one", &on(&fs), false), (u64::from(!is_snappy), method));
            assert_eq!(ingest("/two", &on(&fs), true), (u64::from(!is_snappy), method));
            let same = on(&fs).compression(compression);
            assert_eq!(ingest("/three", &same, false), (0, method));
            let chosen = on(&fs).compression(Compression::Snappy);
            assert_eq!(ingest("/four", &chosen, false), (0, Method::Snappy));
        }
    }

    #[test]
    fn the_newest_compressed_table_decides_in_a_mixture() {
        for (first, _) in every() {
            for (second, method) in every() {
                let fs = MemFs::new();
                write_table(on(&fs).compression(first), "a");
                write_table(on(&fs).compression(second), "b");
                write_table(on(&fs), "c");
                let kept = if method == Method::None { first.method() } else { method };
                assert_eq!(methods(&fs)[1..], [method, kept], "{first} and {second}");
            }
        }
    }

    #[test]
    fn the_warning_names_the_programs_that_cannot_read_new_tables() {
        let warning = |new: Method, found: &[Method]| {
            let new = new.compression().unwrap_or(Compression::Snappy);
            let methods = found.to_vec();
            let found = found.iter().map(|method| method.name()).collect();
            TableCompression { new, found, methods }.warning()
        };
        assert_eq!(warning(Method::Snappy, &[]), None);
        assert_eq!(warning(Method::None, &[Method::Deflate]), None);
        assert_eq!(warning(Method::Snappy, &[Method::Zstd, Method::Snappy]), None);
        assert_eq!(warning(Method::Snappy, &[Method::Snappy, Method::None]), None);
        assert_eq!(
            warning(Method::Snappy, &[Method::Deflate, Method::Zlib]).unwrap(),
            "the tables so far are compressed with deflate and zlib, new ones with snappy, which \
             Minecraft cannot read"
        );
        let core = warning(Method::Snappy, &[Method::None]).unwrap();
        assert!(core.ends_with("such as Bitcoin Core, cannot read"), "{core}");
        let mixed = warning(Method::Snappy, &[Method::Snappy, Method::Deflate]).unwrap();
        assert!(mixed.contains("others with deflate"), "{mixed}");
        #[cfg(feature = "zlib")]
        {
            assert_eq!(warning(Method::Deflate, &[Method::Zlib]), None);
            assert_eq!(
                warning(Method::Zlib, &[]).unwrap(),
                "new tables are compressed with zlib, which LevelDB and goleveldb cannot read"
            );
        }
    }
}
