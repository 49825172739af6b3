//! The end of a table file with other filters.

use crate::base::{Error, Result};
use crate::filter::TABLE_FILTER_NAME;
use crate::format::block_builder::BlockBuilder;
use crate::format::compress::ID_NONE;
use crate::format::handle::{BLOCK_TRAILER_BYTES, BlockHandle, Footer, block_trailer};
use crate::table::filters::FILTER_PREFIX;
use crate::table::reader::Table;
use crate::table::stored::read_exactly;

/// Restart interval of the metaindex, which has at most two entries here.
const RESTART_INTERVAL: usize = 16;

/// The part of a table file after the data blocks: filters, metaindex, index and footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTail {
    /// Offset in the file at which the data blocks end and this part begins, in bytes.
    pub offset: u64,
    /// The contents of this part.
    pub bytes: Vec<u8>,
}

impl TableTail {
    /// Appends a block that is not compressed, with its trailer. Returns its location.
    fn append(&mut self, contents: &[u8]) -> BlockHandle {
        let offset = self.offset + self.bytes.len() as u64;
        self.bytes.extend_from_slice(contents);
        self.bytes.extend_from_slice(&block_trailer(contents, ID_NONE));
        BlockHandle { offset, size: contents.len() as u64 }
    }
}

impl Table {
    /// Returns the end of the file as it would be with these filters and no other meta blocks.
    /// `block` is a filter block and the name of its policy, and `table` is a whole-table filter.
    ///
    /// # Errors
    /// Corruption, if the index is damaged; an I/O error.
    pub(crate) fn with_filters(
        &self,
        block: Option<(&str, &[u8])>,
        table: Option<&[u8]>,
    ) -> Result<TableTail> {
        let data_end = self.blocks()?.iter().filter_map(|block| block.handle.end()).max();
        let mut tail = TableTail { offset: data_end.unwrap_or(0), bytes: Vec::new() };
        let mut metaindex = BlockBuilder::new(RESTART_INTERVAL);
        let block = block.map(|(policy, filter)| ([FILTER_PREFIX, policy].concat(), filter));
        let table = table.map(|filter| (TABLE_FILTER_NAME.to_owned(), filter));
        for (name, filter) in block.into_iter().chain(table) {
            let mut handle = Vec::new();
            tail.append(filter).encode_to(&mut handle);
            metaindex.add(name.as_bytes(), &handle);
        }
        let metaindex = tail.append(metaindex.finish());
        let stored = self.stored_index()?;
        let offset = tail.offset + tail.bytes.len() as u64;
        let index = BlockHandle { offset, size: self.footer().index.size };
        tail.bytes.extend_from_slice(&stored);
        tail.bytes.extend_from_slice(&Footer { metaindex, index }.encode());
        Ok(tail)
    }

    /// Reads the index block as it is stored, with its trailer.
    fn stored_index(&self) -> Result<Vec<u8>> {
        let index = self.footer().index.within(self.file_bytes())?;
        let too_long = || Error::corruption("block too long for this machine").at(index.offset);
        let size = usize::try_from(index.size).map_err(|_| too_long())?;
        let mut stored = vec![0; size + BLOCK_TRAILER_BYTES];
        read_exactly(&*self.file, &self.path, &mut stored, index.offset)
            .map_err(|error| error.in_file(&self.path))?;
        Ok(stored)
    }
}
