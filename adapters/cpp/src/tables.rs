//! Single tables with keys of the program's own: LevelDB's `TableBuilder` and `Table`.

use std::sync::Arc;

use minikv::files::{SingleTableBuilder, TableCursor, TableReader};
use minikv::{Error, Filters, Result};

use crate::border::{ErrPtr, In, Kept, Out, State, export};
use crate::calls::{Entry, lend};
use crate::env::{Calls, LentReadFile, LentWriteFile};
use crate::options::leveldb_options_t;

/// Text that stands for a path in errors: an `Env`'s files do not tell their names.
const NAMELESS: &str = "table";

/// A table under construction, or the error that ended it.
pub struct Builder {
    state: Result<SingleTableBuilder>,
    /// Size of the finished table, in bytes.
    finished: u64,
}

impl Builder {
    fn apply(&mut self, call: impl FnOnce(&mut SingleTableBuilder) -> Result<()>) {
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

/// Begins a table. Blocks may be smaller than a database's.
fn begin(
    options: &leveldb_options_t,
    block_bytes: usize,
    file: LentWriteFile,
) -> Result<SingleTableBuilder> {
    let options = options.checked()?.block_bytes(block_bytes.max(1));
    SingleTableBuilder::new(Box::new(file), NAMELESS, &options)
}

fn open(options: &leveldb_options_t, file: LentReadFile) -> Result<Kept<TableReader>> {
    // LevelDB's `Table` lets programs only iterate, which takes no filters.
    let options = options.checked()?.filters(Filters::None);
    Ok(Kept::new(TableReader::open_single(Arc::new(file), NAMELESS, &options)?))
}

export! {
    fn cpp_builder_create(
        options: &leveldb_options_t,
        block_bytes: usize,
        file: State,
        calls: &Calls,
    ) -> Kept<Builder> {
        let file = LentWriteFile { file, calls: *calls };
        Kept::new(Builder { state: begin(options, block_bytes, file), finished: 0 })
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
        builder.apply(SingleTableBuilder::end_data_block);
    }

    fn cpp_builder_finish(builder: &mut Builder) {
        match std::mem::replace(&mut builder.state, Err(Error::Closed)) {
            Ok(open) => match open.finish() {
                Ok(bytes) => builder.finished = bytes,
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
        builder.state.as_ref().map_or(builder.finished, SingleTableBuilder::file_bytes)
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
    ) -> Kept<TableReader> {
        let file = LentReadFile { file, calls: *calls, bytes };
        errptr.report(open(options, file)).unwrap_or_else(Kept::null)
    }

    fn cpp_table_close(table: Kept<TableReader>) {
        drop(table.take());
    }

    /// Returns about where the entry of a key is, or the size of the table after an error.
    fn cpp_table_offset(table: &TableReader, key: In, key_len: usize) -> u64 {
        table.approximate_offset_of(key.bytes(key_len)).unwrap_or_else(|_| table.file_bytes())
    }

    fn cpp_table_iterator_create(table: &TableReader) -> Kept<TableIterator> {
        Kept::new(TableIterator { cursor: table.cursor(), error: None })
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
            2 => {
                // It may be the iterator's own entry, which the move replaces.
                let key = key.bytes(key_len).to_vec();
                cursor.seek(&key)
            }
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
