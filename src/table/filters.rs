//! The filters of an open table.
//!
//! A table may have three filters: LevelDB's filter block, with a filter per data block; a filter
//! over all keys; and a filter over all key prefixes. Each is a meta block named in the metaindex.
//! A filter that is missing, damaged or of an unknown kind is ignored, and the table is read
//! without it.

use std::sync::Arc;

use crate::base::{Error, Result};
use crate::filter::prefix::PREFIX_FILTER_NAME;
use crate::filter::whole_table::TABLE_FILTER_NAME;
use crate::filter::{
    AliasedFilterPolicy, FilterBlockReader, FilterPolicy, PrefixExtractor, TableFilter,
};
use crate::format::handle::BlockHandle;
use crate::table::settings::TableContext;

/// First part of a filter block's name in the metaindex. The policy's name follows this part.
pub const FILTER_PREFIX: &str = "filter.";

/// The filters that could be read from a table.
#[derive(Debug, Default)]
pub(crate) struct OpenFilters {
    /// The filter block, and the name of its policy in the metaindex.
    pub block: Option<(String, FilterBlockReader)>,
    /// The filter over all keys.
    pub table: Option<TableFilter>,
    /// The filter over the prefixes of all keys.
    pub prefix: Option<TableFilter>,
    /// The first damage that prevented a filter from being read.
    pub error: Option<Error>,
}

impl OpenFilters {
    /// Opens the filters in `meta` (the names and handles in the metaindex), except filters of
    /// kinds that `context` does not know. `read` reads a meta block.
    ///
    /// # Errors
    /// An I/O error. Damage is not returned but stored in [`OpenFilters::error`].
    pub(crate) fn open(
        meta: &[(Vec<u8>, BlockHandle)],
        context: &TableContext,
        read: impl Fn(BlockHandle) -> Result<bytes::Bytes>,
    ) -> Result<OpenFilters> {
        let mut filters = OpenFilters::default();
        let Some(policy) = &context.filter_policy else { return Ok(filters) };
        let handle_of = |name: &str| {
            meta.iter().find(|(other, _)| other == name.as_bytes()).map(|&(_, handle)| handle)
        };
        let names = std::iter::once(policy.name()).chain(policy.aliases().iter().copied());
        let found = names.map(|name| (name, handle_of(&[FILTER_PREFIX, name].concat())));
        if let Some((name, Some(handle))) = found.into_iter().find(|(_, handle)| handle.is_some()) {
            let block = filters.note(read(handle).and_then(|contents| {
                let policy: Arc<dyn FilterPolicy> = match name == policy.name() {
                    true => policy.clone(),
                    false => Arc::new(AliasedFilterPolicy(policy.clone())),
                };
                let filter = FilterBlockReader::new(policy, contents);
                if filter.is_malformed() { Err(malformed(handle)) } else { Ok(filter) }
            }))?;
            filters.block = block.map(|block| (name.to_owned(), block));
        }
        let open = |handle| {
            read(handle).and_then(|bytes| TableFilter::decode(bytes).ok_or(malformed(handle)))
        };
        if let Some(handle) = handle_of(TABLE_FILTER_NAME) {
            filters.table = filters.note(open(handle))?;
        }
        if let Some(extractor) = &context.prefix_extractor
            && let Some(handle) = handle_of(&prefix_filter_name(&**extractor))
        {
            filters.prefix = filters.note(open(handle))?;
        }
        Ok(filters)
    }

    /// Returns the value of `result`. For an error about damage, returns `None`, and stores the
    /// error in `self.error` if it is the first. Returns an I/O error as it is.
    fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(filter) => Ok(Some(filter)),
            Err(error @ Error::Io { .. }) => Err(error),
            Err(error) => {
                self.error.get_or_insert(error);
                Ok(None)
            }
        }
    }

    /// Returns the memory that the filters take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |(_, filter)| filter.memory_bytes());
        let whole = [&self.table, &self.prefix].into_iter().flatten();
        block + whole.map(TableFilter::memory_bytes).sum::<usize>()
    }
}

/// Returns the name of the extractor's filter in the metaindex.
pub(crate) fn prefix_filter_name(extractor: &dyn PrefixExtractor) -> String {
    [PREFIX_FILTER_NAME, extractor.name()].concat()
}

fn malformed(handle: BlockHandle) -> Error {
    Error::corruption("filter block is malformed").at(handle.offset)
}
