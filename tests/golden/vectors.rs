//! Compares the results of single functions with those of the LevelDB library.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use minikv::files::{LogReader, NewFile, Tail, VersionEdit};
use minikv::fs::WriteFile;
use minikv::internals::filter::bloom::{bloom_hash, may_match_hash};
use minikv::internals::format::batch::set_sequence;
use minikv::internals::format::crc;
use minikv::internals::format::edit::encode;
use minikv::internals::format::record::{RecordHeader, RecordType};
use minikv::internals::log::LogWriter;
use minikv::{
    BatchOp, BloomFilterPolicy, BytewiseComparator, Comparator, FilterPolicy, WriteBatch,
};
use serde_json::Value;

use crate::{bytes, hex, items, number, read_fixture, read_json, sha256, text};
use minikv_support::contents::Contents;

#[test]
fn crc32c() {
    let json = read_json("vectors/crc32c.json");
    for vector in items(&json, "vectors") {
        let value = crc::value(&bytes(&vector["data"]));
        assert_eq!(format!("{value:08x}"), text(&vector["crc32c"]));
        assert_eq!(format!("{:08x}", crc::mask(value)), text(&vector["masked"]));
        assert_eq!(crc::unmask(crc::mask(value)), value);
    }
}

#[test]
fn comparator() {
    let json = read_json("vectors/comparator.json");
    assert_eq!(BytewiseComparator.name(), text(&json["name"]));
    for case in items(&json, "separator") {
        let mut start = bytes(&case["start"]);
        BytewiseComparator.find_shortest_separator(&mut start, &bytes(&case["limit"]));
        assert_eq!(hex(&start), text(&case["separator"]), "{case}");
    }
    for case in items(&json, "successor") {
        let mut key = bytes(&case["key"]);
        BytewiseComparator.find_short_successor(&mut key);
        assert_eq!(hex(&key), text(&case["successor"]), "{case}");
    }
}

/// Returns the keys of a case. The case either lists its keys or has the description `key i is
/// "key" then i as 8 decimal digits`.
fn bloom_keys(case: &Value) -> Vec<Vec<u8>> {
    let keys: Vec<Vec<u8>> = match case["keys"].as_array() {
        Some(keys) => keys.iter().map(bytes).collect(),
        None => {
            let generator = text(&case["generator"]);
            assert!(generator.starts_with("key i is \"key\" then i as 8 decimal digits"));
            (0..number(&case["n"])).map(|i| format!("key{i:08}").into_bytes()).collect()
        }
    };
    assert_eq!(keys.len() as u64, number(&case["n"]));
    keys
}

#[test]
fn bloom_filters() {
    let json = read_json("vectors/bloom.json");
    for case in items(&json, "filters") {
        let name = format!("{} with {} bits", case["set"], case["bits_per_key"]);
        let policy = BloomFilterPolicy::new(number(&case["bits_per_key"]) as u32);
        assert_eq!(policy.name(), text(&json["policy_name"]));
        let keys = bloom_keys(case);

        let mut filter = Vec::new();
        policy.create(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut filter);
        assert_eq!(hex(&filter), text(&case["filter"]), "{name}");

        let mut generator = policy.generator();
        keys.iter().for_each(|key| generator.add_key(key));
        let mut generated = Vec::new();
        generator.finish(&mut generated);
        assert_eq!(generated, filter, "{name}, key by key");

        assert!(keys.iter().all(|key| policy.may_match(key, &filter)), "{name}");
        for probe in items(case, "probes") {
            let (key, expected) = (bytes(&probe[0]), number(&probe[1]) == 1);
            assert_eq!(policy.may_match(&key, &filter), expected, "{name}: {probe}");
            assert_eq!(may_match_hash(bloom_hash(&key), &filter), expected, "{name}: {probe}");
        }
    }
}

#[test]
fn bloom_filters_that_nobody_makes() {
    let json = read_json("vectors/bloom.json");
    let policy = BloomFilterPolicy::new(10);
    for case in items(&json, "match_only") {
        let may_match = policy.may_match(&bytes(&case["key"]), &bytes(&case["filter"]));
        assert_eq!(may_match, number(&case["may_match"]) == 1, "{case}");
    }
}

/// A file being written; the test keeps a clone to see the bytes.
#[derive(Clone, Debug, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl WriteFile for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns the batch that a record describes: an empty batch, or a batch with one put of a value
/// whose byte `i` is `(i * 7 + value_fill_c) mod 251`.
fn batch_of(record: &Value) -> WriteBatch {
    let mut batch = WriteBatch::new();
    if let Some(key) = record["batch"]["key"].as_str() {
        let fill = number(&record["batch"]["value_fill_c"]);
        let len = number(&record["batch"]["value_len"]);
        let value: Vec<u8> = (0..len).map(|i| ((i * 7 + fill) % 251) as u8).collect();
        batch.put(crate::unhex(key), value);
    }
    set_sequence(&mut batch, number(&record["sequence"]));
    batch
}

fn assert_batch(record: &Value, payload: &[u8]) {
    let batch = batch_of(record);
    assert_eq!(batch.contents(), payload);
    assert_eq!(payload.len() as u64, number(&record["payload_len"]));
    assert_eq!(sha256(payload), text(&record["payload_sha256"]));
    if let Some(encoded) = record["payload"].as_str() {
        assert_eq!(hex(payload), encoded);
    }
    let read = WriteBatch::from_contents(payload).unwrap();
    assert_eq!(read.len() as u64, number(&record["count"]));
    assert_eq!(read.sequence(), number(&record["sequence"]));
    let puts = read.iter().filter(|op| matches!(op, Ok(BatchOp::Put { .. }))).count();
    assert_eq!(puts, read.len());
}

/// Checks the offset, type and length in each fragment's header.
fn assert_fragments(record: &Value, file: &[u8]) {
    for fragment in items(record, "fragments") {
        let header = RecordHeader::decode(&file[number(&fragment[0]) as usize..]).unwrap();
        let record_type = RecordType::from_u8(header.type_number).unwrap();
        assert_eq!(format!("{record_type:?}").to_uppercase(), text(&fragment[1]));
        assert_eq!(u64::from(header.payload_bytes), number(&fragment[2]));
    }
}

#[test]
fn logs() {
    let json = read_json("vectors/logs.json");
    for log in items(&json, "logs") {
        let name = format!("vectors/{}", text(&log["file"]));
        let file = read_fixture(&name);
        assert_eq!(file.len() as u64, number(&log["bytes"]));
        assert_eq!(sha256(&file), text(&log["sha256"]));

        let mut reader = LogReader::new(Contents::shared(file.clone()), Path::new(&name)).unwrap();
        let rewritten = Written::default();
        let mut writer = LogWriter::new(Box::new(rewritten.clone()), 0);
        for record in items(log, "records") {
            let payload = reader.next().unwrap().expect("a record").to_vec();
            assert_eq!(reader.record_offset(), number(&record["offset"]), "{name}");
            assert_batch(record, &payload);
            assert_fragments(record, &file);
            writer.add_record(&payload).unwrap();
            assert_eq!(writer.len(), reader.valid_end());
        }
        assert_eq!(reader.next().unwrap(), None);
        assert_eq!(reader.tail(), Tail::Clean);
        assert!(*rewritten.0.lock().unwrap() == file, "{name} is written differently");
    }
}

/// Returns the edit that a list of fields describes.
fn edit_of(fields: &[Value]) -> VersionEdit {
    let mut edit = VersionEdit::default();
    let level = |field: &Value| number(&field[1]) as usize;
    for field in fields {
        match text(&field[0]) {
            "comparator" => edit.comparator = Some(text(&field[1]).to_string()),
            "log_number" => edit.log_number = Some(number(&field[1])),
            "prev_log_number" => edit.prev_log_number = Some(number(&field[1])),
            "next_file" => edit.next_file_number = Some(number(&field[1])),
            "last_sequence" => edit.last_seq = Some(number(&field[1])),
            "compact_pointer" => edit.compact_pointers.push((level(field), bytes(&field[2]))),
            "deleted_file" => edit.deleted_files.push((level(field), number(&field[2]))),
            "new_file" => edit.new_files.push(NewFile {
                level: level(field),
                number: number(&field[2]),
                file_bytes: number(&field[3]),
                smallest: bytes(&field[4]),
                largest: bytes(&field[5]),
            }),
            other => panic!("unknown field {other}"),
        }
    }
    edit
}

#[test]
fn manifests() {
    let json = read_json("vectors/manifests.json");
    for manifest in items(&json, "manifests") {
        for case in items(manifest, "edits") {
            let name = format!("{} at {}", manifest["file"], case["offset"]);
            let encoded = bytes(&case["encoded"]);
            let edit = VersionEdit::decode(&encoded).unwrap();
            assert_eq!(edit, edit_of(items(case, "fields")), "{name}");
            let mut again = Vec::new();
            encode(&edit, &mut again);
            assert_eq!(hex(&again), hex(&encoded), "{name}");
        }
    }
}
