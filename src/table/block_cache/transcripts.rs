//! Tests that replay transcripts, which show the blocks that the cache admits and evicts.

use std::sync::Arc;

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::transcript::{self, Command};
use crate::block::{Block, BlockView};
use crate::format::block_builder::BlockBuilder;
use crate::table::block_cache::{
    BlockCache, BlockQueue, Ghosts, SPARE_DIVISOR, TableBlocks, entry_bytes,
};

/// Number of data blocks of the table: one for each letter of the alphabet.
const BLOCKS: usize = 26;

fn block() -> Block {
    let mut builder = BlockBuilder::new(1);
    builder.add(b"key", &[b'v'; 1000]);
    Block::new(builder.finish()).expect("a block")
}

/// Returns the letter that names the block with number `at`.
fn letter(at: usize) -> char {
    char::from(b'a' + at as u8)
}

fn number(letter: char) -> usize {
    usize::from(letter as u8 - b'a')
}

/// A cache of one shard, and the table whose blocks are read.
struct Machine {
    cache: Arc<BlockCache>,
    table: TableBlocks,
}

impl Machine {
    fn new(blocks: u64) -> Machine {
        let bytes = blocks * entry_bytes(block().len());
        // The extra capacity is the part that is left for spares.
        let cache = Arc::new(BlockCache::new((bytes + bytes / (SPARE_DIVISOR - 1) + 1) as usize));
        // With this many ghost entries, no two of the table's blocks share an entry.
        cache.shards[0].lock().ghosts = Ghosts::new(1 << 16);
        let table = cache.table(BLOCKS);
        Machine { cache, table }
    }

    /// Reads a block as a lookup does. Returns the outcome as text.
    fn read(&self, letter: char) -> &'static str {
        let at = number(letter);
        if self.table.get(at).is_some() {
            "hit"
        } else if !self.table.wants(at, block().len()) {
            "miss, not let in"
        } else {
            self.table.insert(at, block());
            "miss"
        }
    }

    /// Formats a queue, starting with the entry that is evicted next. Each block is followed by one
    /// `+` for each counted use.
    fn queue(&self, queue: &BlockQueue) -> String {
        let name = |entry: &super::Queued| {
            let slots = entry.slots.upgrade()?;
            let block = slots.blocks[entry.at as usize].load();
            let uses = block.as_ref().map(BlockView::of)?.uses().load(Relaxed);
            Some(format!("{}{}", letter(entry.at as usize), "+".repeat(usize::from(uses))))
        };
        let names = queue.entries.iter().map(|entry| name(entry).unwrap_or("(gone)".to_owned()));
        names.collect::<Vec<_>>().join(" ")
    }

    fn show(&self) -> String {
        let id = |at: usize| (self.table.slots.id, at as u32);
        let mut shard = self.cache.shards[0].lock();
        let ghosts = (0..BLOCKS).filter(|&at| shard.ghosts.holds(id(at))).map(letter);
        let ghosts: Vec<String> = ghosts.map(String::from).collect();
        let (small, main) = (self.queue(&shard.small), self.queue(&shard.main));
        let lines = [("small", small), ("main", main), ("ghosts", ghosts.join(" "))];
        lines.map(|(name, blocks)| format!("{name}: {blocks}").trim_end().to_owned()).join("\n")
    }
}

#[test]
fn blocks_come_and_go() {
    let mut machine = Machine::new(1);
    transcript::run("block_cache", |command: &Command<'_>| match command.name {
        "cache" => {
            machine = Machine::new(command.number("blocks", 0));
            String::new()
        }
        "read" => {
            let letters = command.args.iter().flat_map(|word| word.chars());
            let outcomes: Vec<_> = letters.map(|letter| (letter, machine.read(letter))).collect();
            let mut lines = Vec::new();
            for group in outcomes.chunk_by(|a, b| a.1 == b.1) {
                let letters: Vec<_> = group.iter().map(|(letter, _)| letter.to_string()).collect();
                lines.push(format!("{}: {}", group[0].1, letters.join(" ")));
            }
            lines.push(machine.show());
            lines.join("\n")
        }
        // Simulates thousands of blocks that left the small queue without being used.
        "unused" => {
            machine.cache.shards[0].lock().used_in_small = 0;
            String::new()
        }
        _ => command.unknown(),
    });
}
