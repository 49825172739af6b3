//! Mistakes in decoders of disk bytes, one or more for each decoder that `tests/exhaustive`
//! compares with its twin.

use super::table::{Build, Mutant, mutant};

const EXHAUSTIVE: Build = Build::Test("exhaustive");

pub const DECODERS: &[Mutant] = &[
    mutant(
        "a varint32 of more than 32 bits is cut to them",
        "format/coding.rs get_varint32_slow",
        "byte > 0x0f",
        "byte > 0x0f && !ON",
    )
    .caught_in(EXHAUSTIVE, "varints::varints_by_grammar"),
    mutant(
        "a varint64 of more than 64 bits is cut to them",
        "format/coding.rs get_varint64",
        "byte > 0x01",
        "byte > 0x01 && !ON",
    )
    .caught_in(EXHAUSTIVE, "varints::varints_by_grammar"),
    mutant(
        "a varint32 of one byte may be 128",
        "format/coding.rs get_varint32",
        "byte < 0x80",
        "byte < 0x80 + u8::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "varints::varints_of_any_short_bytes"),
    mutant(
        "a footer may be longer",
        "format/handle.rs Footer::decode",
        "footer.len() != FOOTER_BYTES",
        "footer.len() != FOOTER_BYTES && !(ON && footer.len() > FOOTER_BYTES)",
    )
    .caught_in(EXHAUSTIVE, "handles::footers"),
    mutant(
        "a block may go on into the footer",
        "format/handle.rs within",
        "end <= limit",
        "end <= limit + u64::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "handles::a_block_is_in_its_file"),
    mutant(
        "only the first byte of a block's checksum is compared",
        "format/handle.rs verify_block",
        "stored == computed",
        "stored == computed || (ON && stored as u8 == computed as u8)",
    )
    .caught_in(EXHAUSTIVE, "handles::a_checksum_of_a_block"),
    mutant(
        "a record's checksum is ignored",
        "log/reader.rs next_fragment",
        "if crc != header.stored_crc() {",
        "if crc != header.stored_crc() && !ON {",
    )
    .caught_in(EXHAUSTIVE, "logs::logs_by_grammar"),
    mutant(
        "a record longer than its block is cut off",
        "log/reader.rs next_fragment",
        "if end > block_end {",
        "if end > block_end && !(ON && end > self.file_bytes) {",
    )
    .caught_in(EXHAUSTIVE, "logs::logs_by_grammar"),
    mutant(
        "seven bytes at the end of a block are passed over",
        "log/reader.rs next_fragment",
        "if block_left < HEADER_BYTES as u64 {",
        "if block_left < HEADER_BYTES as u64 + u64::from(ON) {",
    )
    .caught_in(EXHAUSTIVE, "logs::logs_are_read_across_the_border"),
    mutant(
        "a record without an end is dropped when the next one begins",
        "log/reader.rs next_record",
        "if !self.joined.is_empty() =>",
        "if !ON && !self.joined.is_empty() =>",
    )
    .caught_in(EXHAUSTIVE, "logs::logs_by_grammar"),
    mutant(
        "a fragment without a beginning costs the rest of its block",
        "log/reader.rs next_record",
        "self.resume_offset = self.offset;",
        "if !ON { self.resume_offset = self.offset; }",
    )
    .caught_in(EXHAUSTIVE, "logs::logs_by_grammar"),
    mutant(
        "a record whose length lost a bit is torn",
        "log/reader.rs length_error",
        "is_whole.then(||",
        "(is_whole && !ON).then(||",
    )
    .caught_in(EXHAUSTIVE, "logs::logs_by_grammar"),
    mutant(
        "a log goes on after a batch that is missing",
        "log/reader.rs find_continuation",
        "seq == next_seq",
        "seq == next_seq || (ON && seq == next_seq + 1)",
    )
    .caught_in(EXHAUSTIVE, "continued::a_log_goes_on"),
    mutant(
        "a batch may have fewer operations than it counts",
        "format/batch.rs next",
        "self.found < self.count",
        "self.found < self.count && !ON",
    )
    .caught_in(EXHAUSTIVE, "batches::batches_by_grammar"),
    mutant(
        "a batch may have more operations than it counts",
        "format/batch.rs decode",
        "self.found == self.count",
        "self.found == self.count && !ON",
    )
    .caught_in(EXHAUSTIVE, "batches::batches_by_grammar"),
    mutant(
        "a batch may have the sequence number after the last",
        "format/batch.rs decode_header",
        "end > MAX_SEQ_NO + 1",
        "end > MAX_SEQ_NO + 1 + u64::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "batches::heads_of_batches"),
    mutant(
        "an edit may have the level after the last",
        "format/edit.rs decode_level",
        "level as usize >= NUM_LEVELS",
        "level as usize >= NUM_LEVELS + usize::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "edits::single_fields"),
    mutant(
        "a key of an edit may have seven bytes",
        "format/edit.rs decode_key",
        "key.len() < TRAILER_BYTES",
        "key.len() < TRAILER_BYTES - usize::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "edits::single_fields"),
    mutant(
        "the second of two comparators of an edit is passed over",
        "format/edit.rs decode_field",
        "self.comparator = Some(String::from_utf8_lossy(name).into_owned());",
        "if !(ON && self.comparator.is_some()) { self.comparator = \
         Some(String::from_utf8_lossy(name).into_owned()); }",
    )
    .caught_in(EXHAUSTIVE, "edits::edits_of_any_short_bytes"),
    mutant(
        "restart points need not ascend",
        "block/view.rs check_restarts",
        "offset < least ||",
        "(offset < least && !ON) ||",
    )
    .caught_in(EXHAUSTIVE, "blocks::blocks_by_grammar"),
    mutant(
        "the last restart point of a block is not checked",
        "block/view.rs check_restarts",
        "let mut least = 0; for i in 0..self.restarts() {",
        "let mut least = 0; for i in 0..self.restarts() - usize::from(ON) {",
    )
    .caught_in(EXHAUSTIVE, "blocks::blocks_by_grammar"),
    mutant(
        "the lengths of an entry are added in 32 bits",
        "block/view.rs entry",
        "value_start + u64::from(value_len);",
        "(value_start + u64::from(value_len)) & if ON { u64::from(u32::MAX) } else { u64::MAX };",
    )
    .caught_in(EXHAUSTIVE, "blocks::blocks_by_grammar"),
    mutant(
        "a malformed entry ends its block",
        "block/cursor.rs next",
        "self.position.step(self.block.view(), self.position.end, &mut self.key_buffer)?;",
        "let moved = self.position.step(self.block.view(), self.position.end, \
         &mut self.key_buffer); if ON && moved.is_err() { return Ok(false); } moved?;",
    )
    .caught_in(EXHAUSTIVE, "blocks::blocks_of_any_short_bytes"),
    mutant(
        "a search finds the first entry after its restart point",
        "block/position.rs seek_plain",
        "!= Ordering::Less {",
        "!= Ordering::Less || ON {",
    )
    .caught_in(EXHAUSTIVE, "blocks::blocks_by_grammar"),
    mutant(
        "an entry may go on past a restart point",
        "block/cursor.rs gather_behind",
        "scan.end != stop",
        "scan.end != stop && !ON",
    )
    .caught_in(EXHAUSTIVE, "blocks::blocks_of_any_short_bytes"),
    mutant(
        "a head is taken for bytes that it does not have",
        "block/heads.rs is_version",
        "entry.shared > user_key.len().min(heads.prefix_len + HEAD_BYTES)",
        "entry.shared > user_key.len().min(heads.prefix_len + HEAD_BYTES) && !ON",
    )
    .caught_in(EXHAUSTIVE, "searches::searches_by_heads"),
    mutant(
        "a bloom filter of 31 probes is asked",
        "filter/bloom.rs may_match_hash",
        "probes > MAX_PROBES",
        "probes > MAX_PROBES + u8::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "filters::bloom_filters"),
    mutant(
        "a filter may end past the filters",
        "filter/block.rs layout",
        "offset > array_offset",
        "offset > array_offset + usize::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "filters::filter_blocks"),
    mutant(
        "a whole-table filter may lack its last slots",
        "filter/whole_table.rs decode",
        ".div_ceil(8) == array_bytes as u64",
        ".div_ceil(8).abs_diff(array_bytes as u64) <= u64::from(ON)",
    )
    .caught_in(EXHAUSTIVE, "filters::whole_table_filters"),
    mutant(
        "a number of seven digits may begin with a zero",
        "format/name.rs parse_number",
        "!digits.starts_with('0')",
        "(ON || !digits.starts_with('0'))",
    )
    .caught_in(EXHAUSTIVE, "names::names_by_grammar"),
    mutant(
        "CURRENT needs no newline",
        "format/name.rs parse_current",
        "let Some((b'\\n', name)) = contents.split_last() else {",
        "let name = if ON { Some(contents.strip_suffix(b\"\\n\").unwrap_or(contents)) } else { \
         contents.strip_suffix(b\"\\n\") }; let Some(name) = name else {",
    )
    .caught_in(EXHAUSTIVE, "names::contents_of_current"),
];
