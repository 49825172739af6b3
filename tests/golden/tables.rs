//! Reads whole tables of C++ LevelDB, and writes the same entries again: the new tables must be
//! identical byte for byte.

use std::io;
use std::sync::{Arc, Mutex};

use minikv::files::KeyKind;
use minikv::fs::WriteFile;
use minikv::internals::format::handle::BlockHandle;
use minikv::internals::format::key::{
    InternalComparator, KeyOrder, UserComparator, internal_key, user_key,
};
use minikv::internals::table::{BlockReadOptions, Table, TableBuilder, TableContext, TableOptions};
use minikv::stats::LevelTrace;
use minikv::{BloomFilterPolicy, BytewiseComparator, Compression, FilterPolicy};
use serde_json::Value;

use crate::{bytes, items, number, read_fixture, read_json, text, unhex};
use minikv_support::contents::Contents;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl WriteFile for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A table of `tables.json`.
struct Case {
    name: String,
    json: Value,
    bytes: Vec<u8>,
    entries: Entries,
    options: TableOptions,
}

/// Parses `input`, which has one line for each entry of a table.
fn entries(input: &str, order: &KeyOrder) -> Entries {
    let mut entries = Entries::new();
    for (line, seq) in input.lines().zip(1..) {
        let (key, kind, value) = match line.strip_prefix('!') {
            Some(key) => (key, KeyKind::Deletion, ""),
            None => {
                let (key, value) = line.split_once('\t').unwrap();
                (key, KeyKind::Value, value)
            }
        };
        let key = match order {
            KeyOrder::User(_) => unhex(key),
            KeyOrder::Internal(_) => internal_key(&unhex(key), seq, kind),
        };
        entries.push((key, unhex(value)));
    }
    entries.sort_by(|(a, _), (b, _)| order.compare(a, b));
    entries
}

fn cases() -> Vec<Case> {
    items(&read_json("vectors/tables.json"), "tables").iter().map(case).collect()
}

fn vector(json: &Value) -> Vec<u8> {
    read_fixture(&format!("vectors/{}", text(json)))
}

fn case(json: &Value) -> Case {
    let order = match text(&json["keys"]) {
        "raw" => KeyOrder::User(UserComparator::new(Arc::new(BytewiseComparator))),
        "internal" => KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator))),
        other => panic!("{other}"),
    };
    assert_eq!(json["compression"], "none");
    let bits = json["bloom_bits_per_key"].as_u64();
    let policy = bits.map(|bits| BloomFilterPolicy::new(bits as u32));
    let input = String::from_utf8(vector(&json["input"])).unwrap();
    Case {
        name: text(&json["name"]).to_owned(),
        bytes: vector(&json["file"]),
        entries: entries(&input, &order),
        options: TableOptions {
            order,
            filter_policy: policy.map(|policy| Arc::new(policy) as Arc<dyn FilterPolicy>),
            table_filter_bits_per_key: None,
            prefix_filter: None,
            block_bytes: number(&json["block_size"]) as usize,
            block_restart_interval: number(&json["block_restart_interval"]) as usize,
            compression: Compression::None,
        },
        json: json.clone(),
    }
}

fn open(case: &Case) -> Arc<Table> {
    let context = TableContext {
        order: case.options.order.clone(),
        filter_policy: case.options.filter_policy.clone(),
        prefix_extractor: None,
        block_cache: None,
        paranoid: true,
    };
    let file = Contents::shared(case.bytes.clone());
    let path = format!("{}.ldb", case.name).into();
    Arc::new(Table::open(file, case.bytes.len() as u64, path, &context).unwrap())
}

fn handle(json: &Value) -> BlockHandle {
    BlockHandle { offset: number(&json[0]), size: number(&json[1]) }
}

#[test]
fn tables_are_built_byte_for_byte() {
    for case in cases() {
        let file = Memory::default();
        let path = format!("{}.ldb", case.name).into();
        let mut builder = TableBuilder::new(Box::new(file.clone()), path, case.options.clone());
        for (key, value) in &case.entries {
            builder.add(key, value).unwrap();
        }
        let summary = builder.finish().unwrap();
        let built = file.0.lock().unwrap().clone();
        let differing = built.iter().zip(&case.bytes).position(|(a, b)| a != b);
        assert_eq!((differing, built.len()), (None, case.bytes.len()), "{}", case.name);

        let blocks = case.json["data_blocks"].as_array().unwrap();
        assert_eq!(summary.data_blocks, blocks.len() as u64, "{}", case.name);
        assert_eq!(summary.entries, case.entries.len() as u64, "{}", case.name);
        assert_eq!(summary.file_bytes, case.bytes.len() as u64, "{}", case.name);
        assert_eq!(summary.index_bytes, handle(&case.json["index"]).size, "{}", case.name);
    }
}

#[test]
fn blocks_lie_at_the_offsets_that_leveldb_chose() {
    for case in cases() {
        let table = open(&case);
        let blocks = table.blocks().unwrap();
        let handles: Vec<_> = blocks.iter().map(|block| block.handle).collect();
        let keys: Vec<_> = blocks.into_iter().map(|block| block.separator).collect();
        let list = |field: &str| case.json[field].as_array().unwrap().iter();
        assert_eq!(handles, list("data_blocks").map(handle).collect::<Vec<_>>(), "{}", case.name);
        let wanted = list("index_keys").map(bytes);
        assert_eq!(keys, wanted.collect::<Vec<_>>(), "{}", case.name);
        assert_eq!(table.footer().index, handle(&case.json["index"]), "{}", case.name);
        assert_eq!(table.footer().metaindex, handle(&case.json["metaindex"]), "{}", case.name);

        let meta = case.json["meta"].as_object().unwrap().iter();
        let meta: Vec<_> = meta.map(|(k, v)| (k.clone().into_bytes(), handle(v))).collect();
        assert_eq!(table.meta(), meta, "{}", case.name);
        let filter = table.filter_block().map(|filter| filter.memory_bytes() as u64);
        assert_eq!(filter, meta.first().map(|(_, handle)| handle.size), "{}", case.name);
        assert!(table.filter_error().is_none(), "{}", case.name);
    }
}

#[test]
fn every_entry_is_read_in_both_directions() {
    for case in cases() {
        let mut cursor = open(&case).cursor(BlockReadOptions::default());
        let mut forward = Entries::new();
        let mut found = cursor.seek_to_first().unwrap();
        while found {
            forward.push((cursor.key().to_vec(), cursor.value().to_vec()));
            found = cursor.next().unwrap();
        }
        assert!(forward == case.entries, "{}", case.name);

        let mut backward = Entries::new();
        let mut found = cursor.seek_to_last().unwrap();
        while found {
            backward.push((cursor.key().to_vec(), cursor.value().to_vec()));
            found = cursor.prev().unwrap();
        }
        backward.reverse();
        assert!(backward == case.entries, "{}", case.name);
    }
}

#[test]
fn every_key_is_found_and_near_misses_are_not() {
    for case in cases() {
        let table = open(&case);
        let filtered = case.options.filter_policy.is_some();
        let internal = matches!(case.options.order, KeyOrder::Internal(_));
        let options = BlockReadOptions::default();
        for (key, value) in &case.entries {
            let mut trace = LevelTrace::default();
            let found = table.get(key, &options, &mut trace).unwrap().unwrap();
            assert_eq!(found.value, value, "{}", case.name);
            if internal {
                let again = internal_key(user_key(key), found.seq, found.kind);
                assert_eq!(&again, key, "{}", case.name);
            }
            let checks = u64::from(filtered);
            assert_eq!((trace.filter_checks, trace.filter_true_positives), (checks, checks));

            let absent = if internal {
                internal_key(&[user_key(key), b"\0absent"].concat(), 1 << 40, KeyKind::Value)
            } else {
                [key, &b"\0absent"[..]].concat()
            };
            let mut trace = LevelTrace::default();
            assert_eq!(table.get(&absent, &options, &mut trace).unwrap(), None, "{}", case.name);
            assert_eq!(
                trace.filter_negatives > 0,
                filtered && trace.data_blocks() == 0 && trace.filter_checks > 0,
                "{}",
                case.name
            );
        }
    }
}
