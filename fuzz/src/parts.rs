//! Targets for the small formats: log, version edit, block, batch, key of an IndexedDB.

use std::path::Path;
use std::sync::Arc;

use minikv::files::{LogReader, Tail, VersionEdit};
use minikv::fs::{Fs, MemFs};
use minikv::internals::block::Block;
use minikv::internals::block::cursor::BlockCursor;
use minikv::internals::dialect::indexed_db::describe;
use minikv::internals::format::batch::{self, decode_header, decode_ops};
use minikv::internals::format::edit::encode;
use minikv::internals::format::key::{InternalComparator, KeyOrder, UserComparator};
use minikv::internals::format::record::HEADER_BYTES;
use minikv::internals::log::LogWriter;
use minikv::{BatchOp, BytewiseComparator, Comparator, IndexedDbComparator};
use minikv::{Result, WriteBatch};

/// Returns the order of plain keys and the order of internal keys.
pub fn orders() -> [KeyOrder; 2] {
    [
        KeyOrder::User(UserComparator::new(Arc::new(BytewiseComparator))),
        KeyOrder::Internal(InternalComparator::new(Arc::new(BytewiseComparator))),
    ]
}

/// Creates a reader of a log in memory.
fn reader(fs: &MemFs, bytes: &[u8]) -> LogReader {
    let path = Path::new("/log");
    fs.create(path).unwrap().write(bytes).unwrap();
    LogReader::new(fs.open(path).unwrap(), path).unwrap()
}

/// Returns the records of a log up to its end or its first error, and the tail of the log or the
/// error.
fn records(reader: &mut LogReader) -> (Vec<Vec<u8>>, Result<Tail>) {
    let mut records = Vec::new();
    let end = loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record.to_vec()),
            Ok(None) => break Ok(reader.tail()),
            Err(error) => break Err(error),
        }
    };
    (records, end)
}

/// Reads a log up to the first damage, and then continues after each damage. Checks that the part
/// before `valid_end` is a log by itself, and that its records can be written again and read back
/// unchanged.
pub fn log(data: &[u8]) {
    let fs = MemFs::new();
    let mut whole = reader(&fs, data);
    let (before, end) = records(&mut whole);
    let valid_end = whole.valid_end() as usize;
    assert!(valid_end <= data.len());
    match end {
        Ok(Tail::Clean) => {}
        Ok(Tail::Torn { offset, bytes } | Tail::Zeros { offset, bytes }) => {
            assert_eq!(offset + bytes, data.len() as u64, "the tail is what is left");
        }
        Err(error) => assert!(error.is_corruption(), "{error}"),
    }

    let mut skips = 0;
    let mut at = None;
    loop {
        match whole.next() {
            Ok(Some(_)) => {
                let offset = whole.record_offset();
                assert!(at < Some(offset), "records ascend");
                at = Some(offset);
            }
            Ok(None) => break,
            Err(_) => whole.skip_damage(),
        }
        skips += 1;
        assert!(skips <= 2 * data.len() / HEADER_BYTES + 2, "reading ends");
    }

    let (again, end) = records(&mut reader(&fs, &data[..valid_end]));
    assert_eq!(again, before, "the sound part is a log");
    assert!(matches!(end, Ok(Tail::Clean)), "{end:?}");
    let mut writer = LogWriter::new(fs.create(Path::new("/anew")).unwrap(), 0);
    before.iter().for_each(|record| writer.add_record(record).unwrap());
    let anew = fs.open(Path::new("/anew")).unwrap();
    let (again, end) = records(&mut LogReader::new(anew, Path::new("/anew")).unwrap());
    assert_eq!(again, before);
    assert!(matches!(end, Ok(Tail::Clean)), "{end:?}");
}

/// Decodes an edit. Checks that encoding and decoding it again gives the same edit.
pub fn edit(data: &[u8]) {
    match VersionEdit::decode(data) {
        Ok(edit) => {
            let mut encoded = Vec::new();
            encode(&edit, &mut encoded);
            assert_eq!(VersionEdit::decode(&encoded).unwrap(), edit);
        }
        Err(error) => drop(error.to_string()),
    }
}

/// Returns the locations of a block's entries, from the position of the cursor until the cursor is
/// invalid.
fn entries(
    cursor: &mut BlockCursor,
    mut valid: Result<bool>,
    step: fn(&mut BlockCursor) -> Result<bool>,
    most: usize,
) -> Result<Vec<(usize, usize)>> {
    let mut entries = Vec::new();
    while valid? {
        let value = cursor.value();
        entries.push((value.as_ptr() as usize, cursor.key().len()));
        assert!(entries.len() <= most, "a walk ends");
        valid = step(cursor);
    }
    Ok(entries)
}

/// Walks a block forward and backward, and looks up its keys.
pub fn block(data: &[u8]) {
    let Ok(block) = Block::new(data) else { return };
    let mut cursor = block.cursor();
    let first = cursor.seek_to_first();
    let forward = entries(&mut cursor, first, BlockCursor::next, data.len());
    let last = cursor.seek_to_last();
    let backward = entries(&mut cursor, last, BlockCursor::prev, data.len());
    if let (Ok(forward), Ok(backward)) = (&forward, backward) {
        assert!(forward.iter().eq(backward.iter().rev()), "back is the way that forward went");
    }
    let mut scratch = Vec::new();
    let mut targets = vec![Vec::new(), vec![0xff; 12], data[..data.len().min(10)].to_vec()];
    let mut valid = cursor.seek_to_first();
    while valid.as_ref().is_ok_and(|&valid| valid) && targets.len() < 40 {
        targets.push(cursor.key().to_vec());
        valid = cursor.next();
    }
    let mut before: Option<Block> = None;
    for order in orders() {
        // If the keys are in order, every key must be found; otherwise, any result is allowed.
        let is_sound = forward.is_ok()
            && targets.len() < 40
            && targets[3..].windows(2).all(|pair| order.compare(&pair[0], &pair[1]).is_lt());
        // Also reads the block with heads, as the block cache does. The allocation of the previous
        // block is reused.
        let spare = |_| before.take().map(Block::into_shared);
        let headed = Block::with_heads(data, &order, &mut Vec::new(), spare)
            .expect("heads are no matter of soundness");
        for (at, target) in targets.iter().enumerate() {
            let found = cursor.seek(&order, target);
            let found = found.map(|found| found.then(|| cursor.key().to_vec()));
            let got = block.view().get_ge(&order, target, &mut scratch);
            let got = got.map(|entry| entry.map(|entry| entry.key.to_vec()));
            if let (Ok(found), Ok(got)) = (&found, &got) {
                assert_eq!(found, got, "seek and get agree");
            }
            let by_head = headed.view().get_ge(&order, target, &mut scratch);
            let by_head = by_head.map(|entry| entry.map(|entry| entry.key.to_vec()));
            // Wrong restart points may cause a search and a walk to differ. If each restart point
            // is the start of an entry, every key must be found.
            if is_sound && at >= 3 && block.view().restarts_are_entries() {
                assert_eq!(got.unwrap().as_ref(), Some(target));
                assert_eq!(by_head.unwrap().as_ref(), Some(target), "by its head");
            }
        }
        before = Some(headed);
    }
}

/// Decodes a batch, and checks that building it again gives the same bytes.
pub fn batch(data: &[u8]) {
    let header = decode_header(data);
    let ops: Result<Vec<BatchOp<'_>>> = decode_ops(data).collect();
    let batch = WriteBatch::from_contents(data);
    assert_eq!(batch.is_ok(), ops.is_ok());
    let (Ok(batch), Ok(ops)) = (batch, ops) else { return };
    let (seq, count) = header.expect("a sound batch has a header");
    assert_eq!((batch.len(), batch.sequence()), (ops.len(), seq));
    assert_eq!(count as usize, ops.len());
    let mut again = WriteBatch::new();
    for op in &ops {
        match *op {
            BatchOp::Put { key, value } => again.put(key, value),
            BatchOp::Delete { key } => again.delete(key),
        }
    }
    batch::set_sequence(&mut again, seq);
    let both: Vec<_> = again.iter().map(|op| op.unwrap()).collect();
    assert_eq!(both, ops);
    again.append(&batch);
    batch::check(&again).unwrap();
    assert_eq!(again.len(), 2 * ops.len());
}

/// Compares three keys of an IndexedDB, and decodes them. The first two bytes are the lengths of
/// the first two keys. Checks that the comparator is a total order: reflexive, antisymmetric and
/// transitive.
pub fn indexed_db(data: &[u8]) {
    let Some((lens, rest)) = data.split_first_chunk::<2>() else { return };
    let (a, rest) = rest.split_at(usize::from(lens[0]).min(rest.len()));
    let (b, c) = rest.split_at(usize::from(lens[1]).min(rest.len()));
    let order = |x: &[u8], y: &[u8]| IndexedDbComparator.compare(x, y);
    for key in [a, b, c] {
        assert!(order(key, key).is_eq(), "{key:x?} is not itself");
        let _ = describe(key);
    }
    for [x, y, z] in [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]] {
        assert_eq!(order(x, y), order(y, x).reverse(), "{x:x?} and {y:x?}");
        if order(x, y).is_le() && order(y, z).is_le() {
            let whole = order(x, y).then(order(y, z));
            assert_eq!(order(x, z), whole, "{x:x?}, {y:x?}, {z:x?}");
        }
    }
}
