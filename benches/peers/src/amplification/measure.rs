//! Measures one engine in its own process: loads the data, waits until background work has ended,
//! and looks up keys.

use std::path::Path;

use minikv_workloads::{
    KEY_BYTES, Plan, Result, Store, Values, key, mix, settled_disk_bytes, wait_until_quiet,
    written_bytes,
};

use super::counted::Counted;
use super::replay::{Keys, Lookups};
use super::{Blocks, Case, Measured};

/// Number of gets of absent keys, and number of gets of present keys. With one hundred thousand
/// gets, a mean of 0.03 blocks per get has a standard error of 2 %.
const LOOKUPS: u64 = 100_000;

/// Loads a database in `dir`, looks keys up in it, and returns what the engine wrote and read.
pub fn measure(case: Case, plan: &Plan, dir: &Path) -> Result<Measured> {
    let db = case.open(dir, &plan.settings)?;
    let values = Values::new(plan.value_bytes);
    let entry_bytes = (KEY_BYTES + values.value_bytes()) as u64;
    let lookups = Lookups {
        keys: Keys::new(plan.seed),
        entries: plan.entries,
        count: LOOKUPS.min(plan.most_operations),
    };
    let before = written()?;
    let puts = load(db.store(), plan, &lookups.keys, &values)?;
    rest(db.store())?;
    let directory_bytes = settled_disk_bytes(dir)?;
    let mut measured = Measured {
        described: db.store().describe(),
        put_bytes: puts * entry_bytes,
        live_bytes: plan.entries * entry_bytes,
        written_bytes: written()? - before,
        table_bytes: table_bytes(dir)?,
        directory_bytes,
        lookups: lookups.count,
        ..Measured::default()
    };
    db.tell_writes(&mut measured)?;
    measured.blocks = look_up(&*db, &lookups, &values)?;
    db.close(&lookups, &mut measured)?;
    Ok(measured)
}

fn written() -> Result<u64> {
    written_bytes().ok_or_else(|| "this system does not count written bytes".into())
}

/// Puts every key once, in random order, and then makes the same number of puts with randomly
/// chosen keys. Returns the total number of puts.
fn load(store: &dyn Store, plan: &Plan, keys: &Keys, values: &Values) -> Result<u64> {
    let mut value = Vec::new();
    let mut put = |entry: u64, generation: u32| {
        let number = keys.at(entry);
        values.fill(number, generation, &mut value);
        store.put(&key(number), &value, false)
    };
    for entry in 0..plan.entries {
        put(entry, 0)?;
    }
    for position in 0..plan.entries {
        put(mix(plan.seed << 32 ^ position) % plan.entries, 1)?;
    }
    Ok(2 * plan.entries)
}

/// Waits until background work is done, and then until the process is quiet. Some engines report
/// that they are idle before all background work is done.
fn rest(store: &dyn Store) -> Result<()> {
    store.wait_idle()?;
    wait_until_quiet();
    Ok(())
}

/// Gets every key in `lookups`, checks the values, and returns the numbers of data blocks that the
/// gets searched. Makes no gets if the engine does not count data blocks. LevelDB does not, and its
/// gets must not run: gets that search a table in vain trigger compactions, which would change the
/// levels after they were counted.
fn look_up(db: &dyn Counted, lookups: &Lookups, values: &Values) -> Result<Option<Blocks>> {
    if db.data_blocks().is_none() {
        return Ok(None);
    }
    let mut counts = [0; 2];
    for (count, is_present) in counts.iter_mut().zip([false, true]) {
        let before = db.data_blocks().unwrap_or_default();
        for number in lookups.numbers(is_present) {
            let mut is_right = false;
            let mut check = |value: &[u8]| is_right = values.generation_of(number, value).is_some();
            let found = db.store().get(&key(number), &mut check)?;
            if found != is_present || found != is_right {
                return Err(format!("a wrong answer for key {number}").into());
            }
        }
        *count = db.data_blocks().unwrap_or_default() - before;
    }
    Ok(Some(Blocks { absent: counts[0], present: counts[1] }))
}

/// Returns the total size, in bytes, of the table files in `dir` and its subdirectories. fjall
/// keeps tables in a directory `tables`; the other engines use a file extension for tables.
fn table_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let is_table = path.extension().is_some_and(|e| e == "ldb" || e == "sst")
            || dir.file_name().is_some_and(|name| name == "tables");
        bytes += match path.is_dir() {
            true => table_bytes(&path)?,
            false if is_table => path.metadata()?.len(),
            false => 0,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use minikv_workloads::Settings;

    use super::*;
    use crate::engines::ENGINES;

    /// Loads a small database that has a few levels, and returns the counts of the engine.
    fn small(case: Case) -> Measured {
        let home = tempfile::tempdir().unwrap();
        let plan = Plan {
            entries: 40_000,
            most_operations: 2000,
            settings: Settings::new(1 << 18, 8 << 20),
            ..Plan::default()
        };
        measure(case, &plan, &home.path().join("db")).unwrap()
    }

    #[test]
    fn every_engine_is_counted_and_its_counts_add_up() {
        for case in Case::all(ENGINES) {
            let (name, measured) = (format!("{case:?}"), small(case));
            assert_eq!(measured.put_bytes, 80_000 * 116, "{name}");
            let levels = &measured.levels;
            let level_bytes: u64 = levels.iter().map(|level| level.bytes).sum();
            let tables: u64 = levels.iter().map(|level| level.tables).sum();
            assert!(tables > 1, "{name}: {levels:?}");
            // LevelDB may keep the file of a table that is no longer part of any level.
            assert!(measured.table_bytes >= level_bytes, "{name}: {measured:?}");
            assert!(measured.directory_bytes > measured.table_bytes, "{name}: {measured:?}");
            if let Some(own) = measured.own_written_bytes() {
                // Other tests in this process may write at the same time, and `written_bytes`
                // includes their writes.
                assert!(own < measured.written_bytes * 21 / 20, "{name}: {measured:?}");
            }
            if let Some(blocks) = measured.blocks {
                let by_level = levels.iter().map(|level| level.blocks.map(|b| b.absent)).sum();
                assert!([None, Some(blocks.absent)].contains(&by_level), "{name}: {levels:?}");
                // A get of a present key reads the block that contains the key, unless the key is
                // in the memtable.
                assert!(blocks.present > measured.lookups / 2, "{name}: {blocks:?}");
                match case.filters {
                    true => assert!(blocks.absent < measured.lookups / 4, "{name}: {blocks:?}"),
                    false => assert!(blocks.absent > measured.lookups / 2, "{name}: {blocks:?}"),
                }
            }
        }
    }

    #[test]
    fn tables_are_known_by_their_extension_or_folder() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("keyspaces/1/tables")).unwrap();
        for (name, bytes) in
            [("1.ldb", 1), ("2.sst", 20), ("3.log", 300), ("keyspaces/1/tables/4", 4000)]
        {
            std::fs::write(home.path().join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(table_bytes(home.path()).unwrap(), 4021);
    }
}
