//! Constructed files: logs, MANIFESTs and tables that no engine would write.

use std::collections::BTreeMap;
use std::path::Path;

use minikv::files::{KeyKind, NewFile, VersionEdit};
use minikv::fs::{Fs, MemFs};
use minikv::internals::format::coding::put_varint32;
use minikv::internals::format::edit::encode;
use minikv::internals::format::handle::{BlockHandle, Footer, block_trailer};
use minikv::internals::format::key::internal_key;
use minikv::internals::log::LogWriter;

pub const DIR: &str = "/db";

pub type Files = BTreeMap<String, Vec<u8>>;

pub fn load(files: &Files) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    for (name, bytes) in files {
        fs.create(&Path::new(DIR).join(name)).unwrap().write(bytes).unwrap();
    }
    fs
}

pub fn read(fs: &MemFs, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

pub fn files_of(fs: &MemFs) -> Files {
    let names = fs.list(Path::new(DIR)).unwrap();
    names.into_iter().map(|name| (name.clone(), read(fs, &Path::new(DIR).join(name)))).collect()
}

/// Returns the bytes of a log with the given records.
pub fn log_of(records: &[Vec<u8>]) -> Vec<u8> {
    let fs = MemFs::new();
    let path = Path::new("/log");
    let mut log = LogWriter::new(fs.create(path).unwrap(), 0);
    for record in records {
        log.add_record(record).unwrap();
    }
    read(&fs, path)
}

/// Returns a database with one MANIFEST that holds these edits.
pub fn with_edits(edits: Vec<VersionEdit>) -> Files {
    let records: Vec<Vec<u8>> = edits
        .into_iter()
        .map(|edit| {
            let mut record = Vec::new();
            encode(&edit, &mut record);
            record
        })
        .collect();
    let manifest = ("MANIFEST-000002".to_owned(), log_of(&records));
    BTreeMap::from([manifest, ("CURRENT".to_owned(), b"MANIFEST-000002\n".to_vec())])
}

pub fn first_edit() -> VersionEdit {
    VersionEdit {
        comparator: Some("leveldb.BytewiseComparator".to_owned()),
        log_number: Some(3),
        prev_log_number: Some(0),
        next_file_number: Some(1 << 40),
        last_seq: Some(1),
        ..VersionEdit::default()
    }
}

pub fn with_log(log: Vec<u8>) -> Files {
    let mut files = with_edits(vec![first_edit()]);
    files.insert("000003.log".to_owned(), log);
    files
}

pub fn file(level: usize, number: u64, file_bytes: usize) -> NewFile {
    let key = |key: &[u8], seq| internal_key(key, seq, KeyKind::Value);
    let (smallest, largest) = (key(b"", 1 << 50), key(&[0xff; 9], 0));
    NewFile { level, number, file_bytes: file_bytes as u64, smallest, largest }
}

pub fn with_tables(files: &[(usize, u64, &[u8])]) -> Files {
    let new_files = files.iter().map(|(level, n, bytes)| file(*level, *n, bytes.len())).collect();
    let mut all = with_log(Vec::new());
    let edit = VersionEdit { new_files, ..first_edit() };
    all.extend(with_edits(vec![edit]));
    for (_, number, bytes) in files {
        all.insert(format!("{number:06}.ldb"), bytes.to_vec());
    }
    all
}

pub fn put_block(table: &mut Vec<u8>, contents: &[u8], id: u8) -> BlockHandle {
    let handle = BlockHandle { offset: table.len() as u64, size: contents.len() as u64 };
    table.extend_from_slice(contents);
    table.extend_from_slice(&block_trailer(contents, id));
    handle
}

/// Returns a block that stores every key in full. Every entry is a restart point.
pub fn block(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut restarts = Vec::new();
    for (key, value) in entries {
        restarts.extend_from_slice(&(block.len() as u32).to_le_bytes());
        for len in [0, key.len(), value.len()] {
            put_varint32(&mut block, len as u32);
        }
        block.extend_from_slice(key);
        block.extend_from_slice(value);
    }
    block.extend_from_slice(&restarts);
    block.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    block
}

pub fn handle_bytes(handle: BlockHandle) -> Vec<u8> {
    let mut bytes = Vec::new();
    handle.encode_to(&mut bytes);
    bytes
}

/// Returns a table with one stored data block, to which the index of the table points `times`
/// times.
pub fn table_of(contents: &[u8], id: u8, times: usize, meta: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut table = Vec::new();
    let data = put_block(&mut table, contents, id);
    let meta: Vec<_> = meta
        .iter()
        .map(|(name, contents)| {
            let handle = put_block(&mut table, contents, 0);
            (name.as_bytes().to_vec(), handle_bytes(handle))
        })
        .collect();
    let metaindex = if meta.is_empty() { vec![0, 0, 0, 0, 1, 0, 0, 0] } else { block(&meta) };
    let metaindex = put_block(&mut table, &metaindex, 0);
    let separators = (0..times).map(|i| {
        let key = internal_key(format!("key{i:08}").as_bytes(), 1, KeyKind::Value);
        (key, handle_bytes(data))
    });
    let index = put_block(&mut table, &block(&separators.collect::<Vec<_>>()), 0);
    table.extend_from_slice(&Footer { metaindex, index }.encode());
    table
}
