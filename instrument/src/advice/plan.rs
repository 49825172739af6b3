//! The filters that a replay assumes, and the builders of new filters.

use std::sync::Arc;

use bytes::Bytes;

use minikv::files::{NUM_LEVELS, TableReader};
use minikv::filter::{FilterBlockBuilder, FilterBlockReader, TableFilter, TableFilterBuilder};
use minikv::{BloomFilterPolicy, FilterPolicy, Filters};

/// The kind of new filters, of whatever size: the adviser tries many sizes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// No filters.
    None,
    /// Block filters.
    Block,
    /// Whole-table filters.
    Table,
    /// Both kinds.
    Both,
}

impl FilterKind {
    /// Returns the kind of `filters` and the bits per key, which are 0 without filters.
    pub fn of(filters: Filters) -> (FilterKind, u32) {
        let kind = match (filters.has_block(), filters.has_table()) {
            (false, false) => FilterKind::None,
            (true, false) => FilterKind::Block,
            (false, true) => FilterKind::Table,
            (true, true) => FilterKind::Both,
        };
        (kind, filters.bits_per_key().unwrap_or(0))
    }

    /// Returns filters of this kind with `bits` bits per key, or no filters if `bits` is 0.
    pub fn with(self, bits: u32) -> Filters {
        match self {
            FilterKind::None => Filters::None,
            _ if bits == 0 => Filters::None,
            FilterKind::Block => Filters::Block(bits),
            FilterKind::Table => Filters::Table(bits),
            FilterKind::Both => Filters::Both(bits),
        }
    }
}

/// The block filters that a plan assumes.
#[derive(Clone, Debug)]
pub enum BlockFilters {
    /// No block filters.
    None,
    /// Each table's own filters.
    Own,
    /// New filters with this policy.
    New(Arc<dyn FilterPolicy>),
}

/// The whole-table filters that a plan assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFilters {
    /// No whole-table filters.
    None,
    /// Each table's own filter.
    Own,
    /// New filters with this many bits per key.
    New(u32),
}

/// The filters that tables are assumed to have. If a table has both kinds, only its whole-table
/// filter is queried.
#[derive(Clone, Debug)]
pub struct FilterPlan {
    /// One filter per 2 KiB of data-block offset.
    pub blocks: BlockFilters,
    /// One filter per table.
    pub table: TableFilters,
}

/// The filters of each level's tables.
#[derive(Clone, Debug)]
pub struct TreePlan(pub [FilterPlan; NUM_LEVELS]);

impl From<FilterPlan> for TreePlan {
    fn from(plan: FilterPlan) -> TreePlan {
        TreePlan(std::array::from_fn(|_| plan.clone()))
    }
}

/// The new filters of one table, encoded as on disk.
#[derive(Clone, Debug, Default)]
pub struct MadeFilters {
    /// The filter block.
    pub block: Option<Bytes>,
    /// The whole-table filter.
    pub table: Option<Bytes>,
}

/// The builders of one table's new filters.
pub struct Builders {
    block: Option<FilterBlockBuilder>,
    table: Option<TableFilterBuilder>,
}

impl Builders {
    pub fn of(plan: &FilterPlan) -> Builders {
        Builders {
            block: match &plan.blocks {
                BlockFilters::New(policy) => Some(FilterBlockBuilder::new(&**policy)),
                BlockFilters::None | BlockFilters::Own => None,
            },
            table: match plan.table {
                TableFilters::New(bits) => Some(TableFilterBuilder::new(bits)),
                TableFilters::None | TableFilters::Own => None,
            },
        }
    }

    pub fn start_block(&mut self, offset: u64) {
        if let Some(block) = &mut self.block {
            block.start_block(offset);
        }
    }

    pub fn add_key(&mut self, key: &[u8]) {
        if let Some(block) = &mut self.block {
            block.add_key(key);
        }
        if let Some(table) = &mut self.table {
            table.add_key(key);
        }
    }

    pub fn finish(mut self, end_of_data: u64) -> MadeFilters {
        self.start_block(end_of_data);
        MadeFilters {
            block: self.block.map(|block| Bytes::from(block.finish())),
            table: self.table.map(|table| Bytes::from(table.finish())),
        }
    }
}

impl FilterPlan {
    /// Returns a plan with new filters of `bits` bits per key, or with no filters if `bits` is 0.
    pub fn new(layout: FilterKind, bits: u32) -> FilterPlan {
        let (mut blocks, mut table) = (BlockFilters::None, TableFilters::None);
        if bits > 0 && matches!(layout, FilterKind::Block | FilterKind::Both) {
            blocks = BlockFilters::New(Arc::new(BloomFilterPolicy::new(bits)));
        }
        if bits > 0 && matches!(layout, FilterKind::Table | FilterKind::Both) {
            table = TableFilters::New(bits);
        }
        FilterPlan { blocks, table }
    }

    pub fn bytes(&self, table: &TableReader, made: &MadeFilters) -> u64 {
        let own_block = match self.blocks {
            BlockFilters::Own => table.filter_block().map_or(0, FilterBlockReader::memory_bytes),
            _ => 0,
        };
        let own_table = match self.table {
            TableFilters::Own => table.table_filter().map_or(0, TableFilter::memory_bytes),
            _ => 0,
        };
        let made = [&made.block, &made.table].map(|made| made.as_ref().map_or(0, Bytes::len));
        (own_block + own_table + made[0] + made[1]) as u64
    }
}
