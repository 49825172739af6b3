use super::*;
use crate::base::error::Corruption;
use crate::fs::ordered::DeferredParts;
use crate::log::testing::{Read, of_batches, read, read_all, reader, written};

/// Returns records of every kind: empty, small, longer than the rest of a block, and longer than
/// two blocks.
fn payloads() -> Vec<Vec<u8>> {
    let lens = [0, 1, 100, 40_000, 7, 90_000, 3];
    lens.iter().enumerate().map(|(i, &len)| payload(i as u8 + 1, len)).collect()
}

fn payload(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn fragment(record_type: RecordType, payload: &[u8]) -> Vec<u8> {
    let header = RecordHeader::new(record_type, payload);
    [&header.encode(), payload].concat()
}

fn corruption(read: &Read) -> &Corruption {
    match &read.end {
        Err(Error::Corruption(corruption)) => corruption,
        other => panic!("corruption expected, found {other:?}"),
    }
}

fn assert_damage(bytes: &[u8], records: usize, offset: u64, what: &str) {
    let read = read(bytes);
    assert_eq!(read.records.len(), records);
    let corruption = corruption(&read);
    assert_eq!(corruption.path.as_deref(), Some(Path::new("000003.log")));
    assert_eq!(corruption.offset, Some(offset), "{corruption}");
    assert!(corruption.what.contains(what), "{corruption}");
}

#[test]
fn records_come_back_with_their_offsets() {
    let bytes = written(&payloads());
    let log = read(&bytes);
    assert_eq!(log.payloads(), payloads());
    assert!(matches!(log.end, Ok(Tail::Clean)));
    assert_eq!(log.valid_end, bytes.len() as u64);
    let offsets: Vec<u64> = log.records.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets[..4], [0, 7, 15, 122]);
    assert_eq!(offsets[4], 122 + 40_000 + 2 * 7);
}

#[test]
fn an_empty_file_is_an_empty_log() {
    let log = read(b"");
    assert!(log.records.is_empty() && matches!(log.end, Ok(Tail::Clean)));
    assert_eq!(log.valid_end, 0);
}

#[test]
fn logs_longer_than_a_chunk_are_read_whole() {
    let payloads: Vec<Vec<u8>> = (0..200).map(|i| payload(i, 20_000 + i as usize)).collect();
    let bytes = written(&payloads);
    assert!(bytes.len() as u64 > 3 * CHUNK_BYTES);
    assert_eq!(read(&bytes).payloads(), payloads);
}

#[test]
fn no_more_is_allocated_than_the_file_holds() {
    let mut reader = reader(&written(&[b"a"]));
    assert_eq!(reader.next().unwrap(), Some(&b"a"[..]));
    assert!(reader.chunk.capacity() <= 64, "{}", reader.chunk.capacity());
}

#[test]
fn every_truncation_is_a_torn_tail() {
    let bytes = written(&payloads());
    let ends: Vec<u64> =
        (1..=payloads().len()).map(|n| written(&payloads()[..n]).len() as u64).collect();
    let block_edges = (0..bytes.len()).filter(|len| len % BLOCK_BYTES < 20);
    let others = (0..bytes.len()).filter(|len| len % 97 == 0 || *len < 300);
    for len in block_edges.chain(others).chain(bytes.len() - 300..bytes.len()) {
        let log = read(&bytes[..len]);
        let whole = ends.iter().take_while(|end| **end <= len as u64).count();
        assert_eq!(log.payloads(), payloads()[..whole], "{len} bytes");
        let valid_end = if whole == 0 { 0 } else { ends[whole - 1] };
        assert_eq!(log.valid_end, valid_end);
        let left = len as u64 - valid_end;
        match log.end.unwrap() {
            Tail::Clean => assert_eq!(left, 0),
            Tail::Torn { offset, bytes } => assert_eq!((offset, bytes), (valid_end, left)),
            zeros => panic!("{zeros:?} at {len}"),
        }
    }
}

#[test]
fn zeros_behind_any_truncation_are_a_tail_too() {
    let payloads = [payload(1, 40), payload(2, 700), payload(3, 33_000)];
    let bytes = written(&payloads);
    let ends: Vec<usize> = (1..=3).map(|n| written(&payloads[..n]).len()).collect();
    for len in (0..1000).chain(32_700..32_800).chain(bytes.len() - 100..=bytes.len()) {
        let mut allocated = bytes[..len].to_vec();
        allocated.resize(len + 40_000, 0);
        let log = read(&allocated);
        // A record whose last bytes are zeros may already be complete at a slightly smaller length.
        let sure = ends.iter().take_while(|end| **end <= len).count();
        assert!(log.records.len() >= sure && log.records.len() <= sure + 1, "{len}");
        assert_eq!(log.payloads(), payloads[..log.records.len()]);
        match log.end.unwrap() {
            Tail::Zeros { offset, bytes } => {
                assert_eq!(offset + bytes, allocated.len() as u64);
                assert!(allocated[offset as usize..].iter().all(|&byte| byte == 0));
            }
            Tail::Torn { offset, bytes } => {
                assert_eq!(offset + bytes, allocated.len() as u64);
                assert_eq!(offset, log.valid_end);
            }
            Tail::Clean => panic!("clean at {len}"),
        }
    }
}

#[test]
fn every_changed_byte_yields_a_prefix_or_an_error() {
    let payloads: Vec<Vec<u8>> =
        [0, 1, 50, 300, 2].iter().enumerate().map(|(i, &len)| payload(i as u8, len)).collect();
    // With these lengths, the block ends in the middle of a record, or exactly after a record, or
    // after padding.
    for filler in [0, BLOCK_BYTES - 40, BLOCK_BYTES - 100] {
        let mut all = vec![payload(9, filler)];
        all.extend_from_slice(&payloads);
        let bytes = written(&all);
        let from = bytes.len() - bytes.len().min(500);
        for at in from..bytes.len() {
            for flip in [0x01, 0x80, 0xff, bytes[at], bytes[at] ^ 0x02] {
                if flip == 0 {
                    continue;
                }
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let log = read(&damaged);
                let found = log.payloads();
                assert!(found.len() <= all.len(), "{at}");
                assert_eq!(found, all[..found.len()], "an invented record: byte {at} ^ {flip}");
                let unharmed = found.len() == all.len();
                assert!(!unharmed || at % BLOCK_BYTES > BLOCK_BYTES - 7, "byte {at} ^ {flip}");
                assert!(log.end.is_err() || unharmed || log.end.unwrap() != Tail::Clean);
            }
        }
    }
}

#[test]
fn a_bad_checksum_is_an_error_even_in_the_last_record() {
    let mut bytes = written(&[b"first", b"other"]);
    *bytes.last_mut().unwrap() ^= 1;
    assert_damage(&bytes, 1, 12, "checksum mismatch");
    *bytes.last_mut().unwrap() = 0;
    assert_damage(&bytes, 1, 12, "checksum mismatch");
}

#[test]
fn a_bad_checksum_is_an_error_before_preallocated_zeros_too() {
    let mut bytes = written(&[&b"a"[..], b"payload"]);
    bytes[15] ^= 1;
    for zeros in [1, 100, 600, 4096, BLOCK_BYTES] {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len() + zeros, 0);
        assert_damage(&bytes, 1, 8, "checksum mismatch");
    }
}

#[test]
fn a_changed_length_of_the_last_record_is_an_error_and_no_torn_tail() {
    let records = [payload(1, 100), payload(2, 300)];
    let end = written(&records[..1]).len();
    for zeros in [0, 512, BLOCK_BYTES] {
        for bit in 0..16 {
            let mut bytes = written(&records);
            bytes.resize(bytes.len() + zeros, 0);
            bytes[end + 4 + bit / 8] ^= 1 << (bit % 8);
            assert_damage(&bytes, 1, end as u64, "");
        }
    }
}

#[test]
fn an_unknown_type_is_an_error() {
    let mut bytes = written(&[b"first"]);
    let mut header = RecordHeader { masked_crc: 0, payload_bytes: 1, type_number: 9 };
    header.masked_crc = crate::format::crc::mask(header.actual_crc(b"x"));
    bytes.extend_from_slice(&header.encode());
    bytes.push(b'x');
    let log = read(&bytes);
    assert_eq!(log.payloads(), [b"first"]);
    assert!(log.end.unwrap_err().to_string().contains("unsupported log record type 9"));
}

/// Pebble and RocksDB write a log number, which the checksum covers, after the type; Pebble's newer
/// logs also have an offset there.
#[test]
fn a_record_of_a_recycled_log_is_unsupported_and_no_damage() {
    for (record_type, more) in [(5, 4), (6, 4), (7, 4), (8, 4), (9, 12), (12, 12), (11, 4)] {
        for after in [0, 3, 100] {
            let mut bytes = written(&[b"first"]);
            let fields = vec![7; more];
            let payload = payload(1, 300);
            let mut header =
                RecordHeader { masked_crc: 0, payload_bytes: 300, type_number: record_type };
            header.masked_crc =
                crate::format::crc::mask(header.actual_crc(&[&fields[..], &payload].concat()));
            bytes.extend_from_slice(&[&header.encode()[..], &fields, &payload].concat());
            bytes.resize(bytes.len() + after, 0);
            let error = read(&bytes).end.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Unsupported { .. }), "{text}");
            assert!(text.contains(&format!("type {record_type}, which RocksDB and Pebble")));
            // A damaged record of this kind is damage as any other.
            bytes[20] ^= 1;
            assert!(read(&bytes).end.is_err_and(|error| error.is_corruption()), "{record_type}");
        }
    }
}

/// A file with holes, which counts the bytes that are read.
#[derive(Debug)]
struct Sparse {
    bytes: u64,
    /// The data, at ascending offsets.
    data: Vec<(u64, Vec<u8>)>,
    has_seek: bool,
    read: std::sync::atomic::AtomicU64,
}

impl ReadFile for Sparse {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = (self.bytes - offset.min(self.bytes)).min(buf.len() as u64) as usize;
        self.read.fetch_add(count as u64, std::sync::atomic::Ordering::Relaxed);
        buf[..count].fill(0);
        for (start, data) in &self.data {
            for (at, byte) in (*start..).zip(data) {
                if at >= offset && at < offset + count as u64 {
                    buf[(at - offset) as usize] = *byte;
                }
            }
        }
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn skip_hole(&self, offset: u64) -> io::Result<Option<u64>> {
        if !self.has_seek {
            return Ok(Some(offset));
        }
        let mut ends = self.data.iter().map(|(at, data)| (*at, at + data.len() as u64));
        Ok(ends.find(|(_, end)| *end > offset).map(|(at, _)| at.max(offset)))
    }
}

#[test]
fn a_hole_of_a_sparse_log_is_skipped_and_told_with_its_bounds() {
    const TIB: u64 = 1 << 40;
    let first = written(&[b"first"]);
    let later = written(&[b"later"]);
    let sparse = |bytes, data: Vec<(u64, Vec<u8>)>, has_seek| {
        Arc::new(Sparse { bytes, data, has_seek, read: Default::default() })
    };
    let read_of = |file: &Sparse| file.read.load(std::sync::atomic::Ordering::Relaxed);
    let path = Path::new("000003.log");

    let file = sparse(TIB, vec![(0, first.clone())], true);
    let mut log = LogReader::new(file.clone(), path).unwrap();
    assert_eq!(log.next().unwrap(), Some(&b"first"[..]));
    assert_eq!(log.next().unwrap(), None);
    assert_eq!(log.tail(), Tail::Zeros { offset: 12, bytes: TIB - 12 });
    assert!(read_of(&file) < 8 << 20, "{} bytes read", read_of(&file));

    let data = vec![(0, first.clone()), (TIB / 2 + 100, b"x".to_vec()), (TIB - (1 << 20), later)];
    let file = sparse(TIB, data, true);
    for of_batches in [false, true] {
        let mut log = match of_batches {
            true => LogReader::of_batches(file.clone(), path).unwrap(),
            false => LogReader::new(file.clone(), path).unwrap(),
        };
        assert_eq!(log.next().unwrap(), Some(&b"first"[..]));
        let error = log.next().unwrap_err().to_string();
        let bounds = format!("zeros inside the log, from 12 to {}", TIB / 2 + 100);
        assert!(error.contains(&bounds), "{error}");
        let mut errors = 1;
        let found = loop {
            log.skip_damage();
            match log.next() {
                Ok(found) => break found.map(<[u8]>::to_vec),
                Err(_) => errors += 1,
            }
        };
        assert_eq!((found.as_deref(), errors), (Some(&b"later"[..]), 3));
    }
    assert!(read_of(&file) < 64 << 20, "{} bytes read", read_of(&file));

    // Without a way to ask for holes, the zeros are read.
    let file = sparse(4 << 20, vec![(0, first)], false);
    let mut log = LogReader::new(file.clone(), path).unwrap();
    assert_eq!(log.next().unwrap(), Some(&b"first"[..]));
    assert_eq!(log.next().unwrap(), None);
    assert_eq!(log.tail(), Tail::Zeros { offset: 12, bytes: (4 << 20) - 12 });
}

#[test]
fn the_data_between_many_holes_is_read_without_the_holes() {
    const ISLANDS: u64 = 300;
    const APART: u64 = 256 << 20;
    let mut data: Vec<_> = (0..ISLANDS).map(|at| (at * APART + 5, b"x".to_vec())).collect();
    data[0] = (0, written(&[b"first"]));
    let bytes = ISLANDS * APART;
    let file = Arc::new(Sparse { bytes, data, has_seek: true, read: Default::default() });
    let mut log = LogReader::of_batches(file.clone(), Path::new("000003.log")).unwrap();
    assert_eq!(log.next().unwrap(), Some(&b"first"[..]));
    let mut errors = 0;
    while log.next().is_err() {
        errors += 1;
        log.skip_damage();
    }
    assert!(errors >= ISLANDS - 1, "{errors}");
    let read = file.read.load(std::sync::atomic::Ordering::Relaxed);
    assert!(read < ISLANDS * (384 << 10), "{read} bytes read");
}

#[test]
fn a_length_past_the_block_is_an_error_in_the_last_block_too() {
    for blocks in [1, 2] {
        let mut bytes = written(&vec![payload(1, BLOCK_BYTES - HEADER_BYTES); blocks]);
        bytes[5] = 0xff;
        assert_damage(&bytes, 0, 0, "longer than its block");
    }
    let mut bytes = written(&[b"short"]);
    bytes[5] = 0xff;
    assert_damage(&bytes, 0, 0, "longer than its block");
}

#[test]
fn an_error_says_how_many_bytes_were_left_in_the_block() {
    for first in [5, 100, BLOCK_BYTES - 3 * HEADER_BYTES] {
        // The second is the right length, with one bit changed.
        for length in [0xffff, 0x8006u16] {
            let mut bytes = written(&[payload(1, first), payload(2, 6)]);
            let at = HEADER_BYTES + first;
            bytes[at + 4..at + 6].copy_from_slice(&length.to_le_bytes());
            let room = BLOCK_BYTES - at - HEADER_BYTES;
            assert_damage(&bytes, 1, at as u64, "longer than its block");
            let expected = format!("at most {room} bytes");
            assert_eq!(corruption(&read(&bytes)).expected, Some(expected));
        }
    }
}

#[test]
fn fragments_out_of_order_are_errors() {
    let (first, middle, last, full) = (
        fragment(RecordType::First, b"f"),
        fragment(RecordType::Middle, b"m"),
        fragment(RecordType::Last, b"l"),
        fragment(RecordType::Full, b"F"),
    );
    let at = |n: u64| n * 8;
    assert_damage(&[&full[..], &middle].concat(), 1, at(1), "no first fragment");
    assert_damage(&[&full[..], &last].concat(), 1, at(1), "no first fragment");
    assert_damage(&[&full[..], &first, &full].concat(), 1, at(1), "no last fragment");
    assert_damage(&[&first[..], &middle, &first, &last].concat(), 0, at(0), "no last fragment");
    assert_eq!(read(&[&first[..], &middle, &middle, &last].concat()).payloads(), [b"fmml"]);
}

#[test]
fn an_empty_first_fragment_may_be_left_alone() {
    let empty = fragment(RecordType::First, b"");
    let full = fragment(RecordType::Full, b"F");
    assert_eq!(read(&[&empty[..], &full].concat()).payloads(), [b"F"]);
    let fragments =
        [&empty[..], &fragment(RecordType::First, b"f"), &fragment(RecordType::Last, b"l")];
    let log = read(&fragments.concat());
    assert_eq!(log.records, [(7, b"fl".to_vec())]);
}

#[test]
fn an_unfinished_record_at_the_end_is_torn() {
    let full = fragment(RecordType::Full, b"F");
    let first = fragment(RecordType::First, b"f");
    let log = read(&[&full[..], &first].concat());
    assert_eq!(log.payloads(), [b"F"]);
    assert_eq!(log.end.unwrap(), Tail::Torn { offset: 8, bytes: 8 });
    let log = read(&[&full[..], &first, &[0; 1000]].concat());
    assert_eq!(log.end.unwrap(), Tail::Torn { offset: 8, bytes: 1008 });
}

#[test]
fn zeros_end_a_log_but_do_not_interrupt_it() {
    for zeros in [1, 6, 7, 100, BLOCK_BYTES, 3 * BLOCK_BYTES] {
        let mut bytes = written(&[b"a"]);
        bytes.resize(8 + zeros, 0);
        let log = read(&bytes);
        assert_eq!(log.payloads(), [b"a"]);
        assert_eq!(log.end.unwrap(), Tail::Zeros { offset: 8, bytes: zeros as u64 });
        assert_eq!(log.valid_end, 8);
    }
    let mut bytes = written(&[b"a"]);
    bytes.resize(BLOCK_BYTES, 0);
    bytes.extend_from_slice(&written(&[b"b"]));
    assert_damage(&bytes, 1, 8, "zeros inside the log");
}

#[test]
fn padding_is_skipped_whatever_it_holds() {
    let filler = payload(1, BLOCK_BYTES - HEADER_BYTES - 5);
    let mut bytes = written(&[&filler[..], b"next"]);
    assert_eq!(bytes[BLOCK_BYTES - 5..BLOCK_BYTES], [0; 5]);
    bytes[BLOCK_BYTES - 3] = 7;
    assert_eq!(read(&bytes).payloads(), [&filler[..], b"next"]);
}

#[test]
fn errors_repeat_until_the_damage_is_skipped() {
    let payloads = [payload(1, 100), payload(2, BLOCK_BYTES), payload(3, 10), payload(4, 10)];
    let mut bytes = written(&payloads);
    bytes[200] ^= 1;
    let mut reader = reader(&bytes);
    assert_eq!(reader.next().unwrap(), Some(&payloads[0][..]));
    assert!(reader.next().is_err());
    assert!(reader.next().unwrap_err().is_corruption());
    reader.skip_damage();
    let error = reader.next().unwrap_err().to_string();
    assert!(error.contains("no first fragment"), "{error}");
    reader.skip_damage();
    assert_eq!(reader.next().unwrap(), Some(&payloads[2][..]));
    assert_eq!(reader.next().unwrap(), Some(&payloads[3][..]));
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!(reader.valid_end(), bytes.len() as u64);

    let (first, full) = (fragment(RecordType::First, b"f"), fragment(RecordType::Full, b"F"));
    let mut reader = crate::log::testing::reader(&[&first[..], &full].concat());
    assert!(reader.next().is_err());
    reader.skip_damage();
    assert_eq!(reader.next().unwrap(), Some(&b"F"[..]), "the next record is not lost");
}

#[test]
fn a_read_that_stops_short_is_an_error_and_no_end() {
    #[derive(Debug)]
    struct Shrunk(Vec<u8>);
    impl ReadFile for Shrunk {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = self.0.get(offset as usize..).unwrap_or(&[]);
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64 + 1000)
        }
    }
    let file = Shrunk(written(&[b"a"]));
    let mut reader = LogReader::new(Arc::new(file), Path::new("000003.log")).unwrap();
    let error = reader.next().unwrap_err();
    assert_eq!(error.io_kind(), Some(io::ErrorKind::UnexpectedEof), "{error}");
}

/// Checks that a record without a header is a torn tail. A process that is killed while it stores a
/// record in a mapping leaves such a record.
#[test]
fn a_store_that_was_cut_short_is_a_torn_tail() {
    // The records have one fragment or two fragments.
    for len in [1, 500, 60_000] {
        let first = written(&[b"a"]).len();
        let whole = written(&[b"a".to_vec(), payload(9, len)]);
        for stored in [first + 8, first + 7 + len / 2, whole.len()] {
            let mut bytes = whole.clone();
            bytes[first..first + 7].fill(0);
            bytes[stored..].fill(0);
            bytes.resize(1 << 20, 0);
            let log = read(&bytes);
            assert_eq!(log.payloads(), [b"a"]);
            let bytes = (1 << 20) - 8;
            let tail = match stored > first + 7 + len / 2 || len > 1 {
                true => Tail::Torn { offset: 8, bytes },
                false => Tail::Zeros { offset: 8, bytes },
            };
            assert_eq!(log.end.unwrap(), tail, "{len} bytes, up to {stored}");
        }
    }
    // If another record follows, or if the record is longer than a single store can be, the zeros
    // are damage rather than a torn tail.
    let mut bytes = written(&[b"a".to_vec(), payload(9, 500), b"b".to_vec()]);
    bytes[8..15].fill(0);
    bytes.resize(1 << 20, 0);
    assert_damage(&bytes, 1, 8, "zeros inside the log");
    let mut bytes = written(&[b"a".to_vec(), payload(9, 70_000)]);
    bytes[8..15].fill(0);
    bytes.resize(1 << 20, 0);
    assert_damage(&bytes, 1, 8, "zeros inside the log");
}

/// Checks that a log can be read while it is truncated. A writer that closes its log removes the
/// zeros at the end.
#[test]
fn a_log_may_be_cut_while_it_is_read() {
    #[derive(Debug)]
    struct Cut {
        bytes: Vec<u8>,
        first_len: std::sync::atomic::AtomicU64,
    }
    impl ReadFile for Cut {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = self.bytes.get(offset as usize..).unwrap_or(&[]);
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
        fn len(&self) -> io::Result<u64> {
            let now = self.bytes.len() as u64;
            Ok(self.first_len.swap(now, std::sync::atomic::Ordering::Relaxed))
        }
    }
    for more in [1, 1000, 1 << 20, 5 << 20] {
        let bytes = written(&payloads());
        let first_len = (bytes.len() as u64 + more).into();
        let file = Arc::new(Cut { bytes, first_len });
        let mut reader = LogReader::new(file, Path::new("000003.log")).unwrap();
        for payload in payloads() {
            assert_eq!(reader.next().unwrap(), Some(&payload[..]));
        }
        assert_eq!(reader.next().unwrap(), None, "{more} bytes were cut");
    }
}

/// Checks that a reader reports no damage if another process stores records while the reader
/// examines the end of the log.
#[test]
fn a_log_that_grows_while_its_end_is_looked_at_is_not_damaged() {
    #[derive(Debug)]
    struct Growing {
        stages: Vec<Vec<u8>>,
        reads: std::sync::atomic::AtomicUsize,
    }
    impl ReadFile for Growing {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let read = self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let bytes = &self.stages[read.min(self.stages.len() - 1)];
            let rest = bytes.get(offset as usize..).unwrap_or(&[]);
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.stages[0].len() as u64)
        }
    }
    let whole = written(&[b"a".to_vec(), payload(9, 5000), payload(10, 70_000), b"b".to_vec()]);
    let stage = |written: usize| {
        let mut bytes = whole[..written].to_vec();
        bytes.resize(1 << 20, 0);
        bytes
    };
    // The reader first sees a log that ends before the second record, and then a log that ends in
    // the middle of that record, after its header and a part of its payload.
    for seen in [8, 2000] {
        let open = |stages: Vec<Vec<u8>>| {
            let file = Arc::new(Growing { stages, reads: 0.into() });
            LogReader::new(file, Path::new("000003.log")).unwrap()
        };
        let growing = || open(vec![stage(seen), stage(whole.len())]);
        let mut reader = growing().beside_writer(true);
        assert_eq!(reader.next().unwrap(), Some(&b"a"[..]), "{seen} bytes");
        assert_eq!(reader.next().unwrap(), None, "{seen} bytes");
        assert_eq!(reader.valid_end(), 8, "{seen} bytes");
        // Without another writer, a change of the bytes is damage.
        let mut reader = growing();
        reader.next().unwrap();
        assert!(reader.next().unwrap_err().is_corruption(), "{seen} bytes");
        // Zeros that do not change are damage, even if another process may be writing.
        let mut holed = whole.clone();
        holed[8..5000].fill(0);
        let mut reader = open(vec![holed]).beside_writer(true);
        reader.next().unwrap();
        assert!(reader.next().unwrap_err().is_corruption(), "{seen} bytes");
    }
}

/// Returns a batch with a valid header, followed by arbitrary bytes.
fn batch(seq: u64, len: usize) -> Vec<u8> {
    [&seq.to_le_bytes()[..], &1u32.to_le_bytes(), &payload(seq as u8, len)].concat()
}

fn read_batches(bytes: &[u8]) -> Read {
    read_all(of_batches(bytes))
}

/// Returns the contents that a log may have after a process was killed while writing the record
/// after `whole`. All contents end at the end of a block.
fn killed_ends(whole: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let to_block = |mut bytes: Vec<u8>, more: usize| {
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES) + more * BLOCK_BYTES, 0);
        bytes
    };
    let with = |parts: &[&[u8]]| [&[whole], parts].concat().concat();
    let long = [&[0; 7][..], &payload(3, 20_000)].concat();
    let torn = &fragment(RecordType::Full, &payload(4, 900))[..500];
    let room = BLOCK_BYTES - whole.len() % BLOCK_BYTES - HEADER_BYTES;
    let first = fragment(RecordType::First, &batch(3, room - 12));
    vec![
        ("zeros up to the block's end", to_block(whole.to_vec(), 0)),
        ("and more blocks of them", to_block(whole.to_vec(), 30)),
        ("a record without its header", to_block(with(&[&long]), 1)),
        ("a record cut short before zeros", to_block(with(&[torn]), 0)),
        ("the first fragment of a record", with(&[&first])),
        ("and zeros instead of the next", to_block(with(&[&first, &[0]]), 2)),
    ]
}

#[test]
fn a_log_that_was_continued_at_the_beginning_of_a_block_goes_on_there() {
    let whole = written(&[batch(1, 100), batch(2, 300)]);
    for (what, left) in killed_ends(&whole) {
        assert_eq!(left.len() % BLOCK_BYTES, 0, "{what}");
        let log = read_batches(&left);
        assert_eq!((log.records.len(), log.end.is_ok()), (2, true), "{what}");
        for first in [batch(3, 10), batch(3, 90_000)] {
            let continued = [left.clone(), written(&[first, batch(4, 10)])].concat();
            let log = read_batches(&continued);
            assert_eq!(log.records.len(), 4, "{what}: {:?}", log.end);
            assert_eq!(log.end.unwrap(), Tail::Clean, "{what}");
            assert_eq!(log.valid_end, continued.len() as u64);
            // The log may be continued a second time.
            let mut again = continued.clone();
            again.resize(again.len().next_multiple_of(BLOCK_BYTES), 0);
            again.extend_from_slice(&written(&[batch(5, 10)]));
            assert_eq!(read_batches(&again).records.len(), 5, "{what}");
        }
    }
}

/// Checks that a log is not continued after a lost page. A lost page leaves zeros, too, but there
/// is a gap in the sequence numbers.
#[test]
fn a_block_behind_zeros_counts_only_if_no_batch_is_missing() {
    let whole = written(&[batch(1, 100), batch(2, 300)]);
    for (what, left) in killed_ends(&whole) {
        for seq in [0, 2, 4, 1000] {
            let other = [left.clone(), written(&[batch(seq, 10)])].concat();
            let log = read_batches(&other);
            assert_eq!((log.records.len(), log.end.is_err()), (2, true), "{what}, {seq}");
        }
        let mut late = left.clone();
        late.resize(left.len() + 100, 0);
        late.extend_from_slice(&written(&[batch(3, 10)]));
        assert!(read_batches(&late).end.is_err(), "{what}, then not at the beginning of a block");
        // A log whose records are not batches, such as a MANIFEST, has no continuations.
        let other = [left, written(&[batch(3, 10)])].concat();
        assert!(read(&other).end.is_err(), "{what}");
    }
}

/// Checks that lost pages of a log never make batches in the middle disappear without an error. A
/// loss of power may replace any pages with zeros.
#[test]
fn lost_pages_of_a_log_of_batches_leave_no_hole() {
    // Some of these records end at the end of a page or block.
    for len in [4096 - 7 - 12, 2048 - 7 - 12, 700, 5000] {
        let batches: Vec<Vec<u8>> = (1..60).map(|seq| batch(seq, len)).collect();
        let bytes = written(&batches);
        for first in 0..bytes.len() / 4096 {
            for pages in [1, 2, 7, 8, 9, 16] {
                let mut lost = bytes.clone();
                let range = first * 4096..((first + pages) * 4096).min(bytes.len());
                lost[range.clone()].fill(0);
                let log = read_batches(&lost);
                assert_eq!(log.payloads(), batches[..log.records.len()], "{len}, {range:?}");
                let is_end = range.end == bytes.len() || range.end + MAX_STORED_BYTES > bytes.len();
                assert!(log.end.is_err() || is_end, "{len}, {range:?}");
            }
        }
    }
}

/// Checks that a file full of damage is searched for a continuation only once.
#[test]
fn a_log_full_of_damage_is_read_in_time() {
    let mut bytes = written(&[batch(1, 10)]);
    bytes.resize(16 << 20, 0xee);
    let mut reader = of_batches(&bytes);
    let mut damages = 0;
    loop {
        match reader.next() {
            Ok(None) => break,
            Ok(Some(_)) => {}
            Err(_) => {
                damages += 1;
                reader.skip_damage();
            }
        }
    }
    assert!(damages > 500);
}

/// Checks that a log ends before an incomplete write. A process may be killed between any two pages
/// of a write.
#[test]
fn a_write_cut_short_at_any_page_ends_the_log_before_it() {
    for filler in [100, 4089, 4090, 30_000, 32_700, 32_740, 32_755, 32_760] {
        for len in [10, 5000, 40_000, 100_000, 1_200_000] {
            if len > 1 << 20 && !matches!(filler, 100 | 32_755) {
                continue;
            }
            let before = written(&[batch(1, filler)]);
            let whole = written(&[batch(1, filler), batch(2, len)]);
            let (mut file, mut written_to) = (before.clone(), Vec::new());
            file.resize(whole.len().next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES, 0);
            let mut deferred = DeferredParts::default();
            // Like `LogWriter`, write a huge record in pieces, each of which ends where a fragment
            // ends.
            let mut position = before.len();
            while position < whole.len() {
                let end = match whole.len() - position {
                    left if left > 1 << 20 => (position + (1 << 20)) / BLOCK_BYTES * BLOCK_BYTES,
                    _ => whole.len(),
                };
                let note = |bytes: &[u8], offset: u64| {
                    written_to.push((offset as usize, bytes.to_vec()));
                    Ok(())
                };
                deferred.write(&whole[position..end], position as u64, note).unwrap();
                position = end;
            }
            let mut steps = 0;
            for (offset, bytes) in written_to {
                for (at, byte) in (offset..).zip(bytes) {
                    if at.is_multiple_of(4096) && (at / 4096).is_multiple_of(1 + len / 50_000) {
                        let log = read_batches(&file);
                        assert_eq!(log.records.len(), 1, "{filler}, {len} at {at}: {:?}", log.end);
                        assert!(log.end.is_ok(), "{filler}, {len} at {at}: {:?}", log.end);
                        steps += 1;
                    }
                    file[at] = byte;
                }
                let log = read_batches(&file);
                assert!(log.end.is_ok(), "{filler}, {len} behind {offset}: {:?}", log.end);
            }
            assert!(steps > 2 || len < 10_000, "{steps}");
            assert!(file.starts_with(&whole), "{filler}, {len}");
            assert_eq!(read_batches(&file).records.len(), 2);
        }
    }
}

/// A file that another process appends to, and the number of bytes read from it.
#[derive(Debug, Default)]
struct Appended {
    bytes: std::sync::Mutex<Vec<u8>>,
    read: std::sync::atomic::AtomicUsize,
}

impl Appended {
    /// Replaces the contents with `bytes`, followed by zeros up to `len`.
    fn set(&self, bytes: &[u8], len: usize) {
        let mut now = self.bytes.lock().unwrap();
        *now = bytes.to_vec();
        now.resize(len.max(bytes.len()), 0);
    }
}

impl ReadFile for Appended {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        self.read.fetch_add(len, std::sync::atomic::Ordering::Relaxed);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
}

#[test]
fn a_resumed_reader_returns_appended_records_even_if_parts_were_there_before() {
    let whole = written(&payloads());
    let file = Arc::new(Appended::default());
    let reader = LogReader::new(file.clone(), Path::new("000003.log")).unwrap();
    let mut reader = reader.beside_writer(true);
    let mut read = Vec::new();
    for end in (0..whole.len()).step_by(211).chain([whole.len()]) {
        file.set(&whole[..end], 0);
        reader.resume().unwrap();
        while let Some(record) = reader.next().unwrap() {
            read.push(record.to_vec());
        }
        assert!(reader.valid_end() <= end as u64);
    }
    assert_eq!(read, payloads());
    file.set(&whole[..whole.len() - 1], 0);
    let error = reader.resume().unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("000003.log"), "{error}");
}

#[test]
fn a_resumed_reader_reads_the_zeros_of_a_log_once() {
    let payloads: Vec<Vec<u8>> = (0..100).map(|i| payload(i, 500)).collect();
    let file = Arc::new(Appended::default());
    let len = 4 << 20;
    file.set(&[], len);
    let reader = LogReader::new(file.clone(), Path::new("000003.log")).unwrap();
    let mut reader = reader.beside_writer(true);
    let bytes_read = || file.read.load(std::sync::atomic::Ordering::Relaxed);
    for count in 0..payloads.len() {
        let before = bytes_read();
        file.set(&written(&payloads[..count]), len);
        reader.resume().unwrap();
        match count {
            0 => {}
            _ => assert_eq!(reader.next().unwrap(), Some(&payloads[count - 1][..])),
        }
        assert_eq!(reader.next().unwrap(), None);
        let cost = bytes_read() - before;
        assert!(count == 0 || cost <= 3 * BLOCK_BYTES, "{cost} bytes for record {count}");
    }
    // If the file has grown, the zeros must be read again, because records may follow them.
    let mut continued = written(&payloads);
    continued.resize(len, 0);
    continued.extend(written(&payloads[..1]));
    file.set(&continued, 0);
    reader.resume().unwrap();
    assert_eq!(reader.next().unwrap(), Some(&payloads[99][..]));
    let error = reader.next().unwrap_err();
    assert!(error.to_string().contains("zeros inside the log"), "{error}");
}
