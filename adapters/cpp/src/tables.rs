//! Single tables with keys of the program's own: LevelDB's `TableBuilder` and `Table`.

use std::path::PathBuf;
use std::sync::Arc;

use minikv::files::TableCursor;
use minikv::internals::format::key::{KeyOrder, UserComparator};
use minikv::internals::table::{BlockReadOptions, Table, TableBuilder, TableContext, TableOptions};
use minikv::{BloomFilterPolicy, Compression, Error, FilterPolicy, Filters, Result};

use crate::border::{ErrPtr, In, Kept, Out, State, export};
use crate::callbacks::leveldb_filterpolicy_t;
use crate::calls::{Entry, lend};
use crate::env::{Calls, LentReadFile, LentWriteFile};
use crate::options::leveldb_options_t;

/// A table under construction, or the error that ended it.
pub struct Builder {
    state: Result<TableBuilder>,
    /// Size of the finished table, in bytes.
    finished: u64,
}

impl Builder {
    fn apply(&mut self, call: impl FnOnce(&mut TableBuilder) -> Result<()>) {
        if let Ok(builder) = &mut self.state
            && let Err(error) = call(builder)
        {
            self.state = Err(error);
        }
    }
}

/// A cursor over a table, and its first error.
pub struct TableIterator {
    cursor: TableCursor,
    error: Option<Error>,
}

/// Returns the text that stands for a path in errors: an `Env`'s files do not tell their names.
fn nameless() -> PathBuf {
    PathBuf::from("table")
}

fn order(options: &leveldb_options_t) -> KeyOrder {
    KeyOrder::User(UserComparator::new(options.order.clone()))
}

/// Returns the policy that makes the filters of a table's blocks.
fn block_policy(of: &leveldb_filterpolicy_t) -> Option<Arc<dyn FilterPolicy>> {
    match (&of.policy, of.filters) {
        (Some(policy), _) => Some(policy.clone()),
        (None, Filters::Block(bits)) => Some(Arc::new(BloomFilterPolicy::new(bits))),
        (None, _) => None,
    }
}

fn open(options: &leveldb_options_t, file: LentReadFile) -> Result<Kept<Arc<Table>>> {
    let context = TableContext {
        order: order(options),
        filter_policy: None,
        prefix_extractor: None,
        block_cache: None,
        paranoid: false,
    };
    let table = Table::open(Arc::new(file), file.bytes, nameless(), &context)?;
    Ok(Kept::new(Arc::new(table)))
}

export! {
    /// Begins a table. Filters are written only if the order of keys is byte order.
    fn cpp_builder_create(
        options: &leveldb_options_t,
        policy: Option<&leveldb_filterpolicy_t>,
        block_bytes: usize,
        restart_interval: usize,
        compress: u8,
        file: State,
        calls: &Calls,
    ) -> Kept<Builder> {
        let policy = policy.and_then(block_policy);
        let table = TableOptions {
            order: order(options),
            filter_policy: policy,
            table_filter_bits_per_key: None,
            prefix_filter: None,
            block_bytes: block_bytes.max(1),
            block_restart_interval: restart_interval.max(1),
            compression: if compress == 0 { Compression::None } else { Compression::Snappy },
        };
        let file = Box::new(LentWriteFile { file, calls: *calls });
        let builder = TableBuilder::new(file, nameless(), table);
        Kept::new(Builder { state: Ok(builder), finished: 0 })
    }

    fn cpp_builder_add(
        builder: &mut Builder,
        key: In,
        key_len: usize,
        value: In,
        value_len: usize,
    ) {
        builder.apply(|builder| builder.add(key.bytes(key_len), value.bytes(value_len)));
    }

    fn cpp_builder_end_block(builder: &mut Builder) {
        builder.apply(TableBuilder::end_data_block);
    }

    fn cpp_builder_finish(builder: &mut Builder) {
        match std::mem::replace(&mut builder.state, Err(Error::Closed)) {
            Ok(open) => match open.finish() {
                Ok(summary) => builder.finished = summary.file_bytes,
                Err(error) => builder.state = Err(error),
            },
            failed => builder.state = failed,
        }
    }

    /// Reports the error that ended the table, if there was one.
    fn cpp_builder_status(builder: &Builder, errptr: ErrPtr) {
        if let Err(error) = &builder.state
            && !matches!(error, Error::Closed)
        {
            errptr.report::<()>(Err(error.clone()));
        }
    }

    fn cpp_builder_bytes(builder: &Builder) -> u64 {
        builder.state.as_ref().map_or(builder.finished, TableBuilder::file_bytes)
    }

    fn cpp_builder_destroy(builder: Kept<Builder>) {
        drop(builder.take());
    }

    fn cpp_table_open(
        options: &leveldb_options_t,
        file: State,
        bytes: u64,
        calls: &Calls,
        errptr: ErrPtr,
    ) -> Kept<Arc<Table>> {
        let file = LentReadFile { file, calls: *calls, bytes };
        errptr.report(open(options, file)).unwrap_or_else(Kept::null)
    }

    fn cpp_table_close(table: Kept<Arc<Table>>) {
        drop(table.take());
    }

    /// Returns about where the entry of a key is, or the size of the table after an error.
    fn cpp_table_offset(table: &Arc<Table>, key: In, key_len: usize) -> u64 {
        table.approximate_offset_of(key.bytes(key_len)).unwrap_or_else(|_| table.file_bytes())
    }

    fn cpp_table_iterator_create(table: &Arc<Table>) -> Kept<TableIterator> {
        let cursor = table.cursor(BlockReadOptions::default());
        Kept::new(TableIterator { cursor, error: None })
    }

    fn cpp_table_iterator_move(
        iterator: &mut TableIterator,
        how: u8,
        key: In,
        key_len: usize,
        entry: Out<Entry>,
    ) -> u8 {
        let cursor = &mut iterator.cursor;
        let moved = match how {
            0 => cursor.seek_to_first(),
            1 => cursor.seek_to_last(),
            2 => cursor.seek(&key.bytes(key_len).to_vec()),
            3 => cursor.next(),
            _ => cursor.prev(),
        };
        if let Err(error) = moved {
            iterator.error.get_or_insert(error);
        }
        let cursor = &iterator.cursor;
        lend(cursor.valid().then(|| (cursor.key(), cursor.value())), entry)
    }

    fn cpp_table_iterator_status(iterator: &TableIterator, errptr: ErrPtr) {
        errptr.report(iterator.error.clone().map_or(Ok(()), Err));
    }

    fn cpp_table_iterator_destroy(iterator: Kept<TableIterator>) {
        drop(iterator.take());
    }
}
