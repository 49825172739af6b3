//! Keyspaces in databases that C++ LevelDB also opens. To LevelDB, the keys of keyspaces are
//! ordinary keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};

use minikv::{Db, DelimitedPrefix, FixedPrefix, Keyspace, Readable, WriteBatch};
use minikv_interop::LevelDb;
use minikv_interop::ffi::{Entry, Op};

use crate::sides::{Engine, Reader, Shape};
use crate::{Scene, rng, rounds};

/// Returns the database key that stores `key` of the keyspace `name`, as documented in
/// docs/keyspaces.md.
fn documented(name: &[u8], key: &[u8]) -> Vec<u8> {
    [&[0xff, 0xfe, 0x6b, 0x73, name.len() as u8], name, key].concat()
}

#[test]
fn a_keyspace_is_ordinary_keys_to_leveldb() {
    let names = [&b"users"[..], b"user", b"\0", b"\xff", &[0xff; 255]];
    let seed = rng::seed();
    for round in 0..rounds(6) {
        let mut scene = Scene::new("keyspaces", seed, round);
        scene.shape = Shape { reverse: false, prefix_filter: false, ..scene.shape };
        let options = || {
            let options = scene.shape.options().filter_prefix(FixedPrefix::new(2));
            options.filter_prefix_in("users", DelimitedPrefix::new(b'/'))
        };
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let db = Db::open(&scene.dir, options()).unwrap();
        for i in 0..4000u32 {
            let (name, key) = (*scene.rng.pick(&names), (i * 7919 % 3000).to_string());
            let keyspace = db.keyspace(name).unwrap();
            let mut batch = WriteBatch::new();
            batch.put_in(&keyspace, &key, i.to_le_bytes());
            batch.put(&key, name);
            db.write(batch).unwrap();
            model.insert(documented(name, key.as_bytes()), i.to_le_bytes().to_vec());
            model.insert(key.into_bytes(), name.to_vec());
        }
        db.keyspace(names[0]).unwrap().put("", "empty key").unwrap();
        model.insert(documented(names[0], b""), b"empty key".to_vec());
        db.keyspace(names[2]).unwrap().clear().unwrap();
        model.retain(|key, _| !key.starts_with(&documented(names[2], b"")));
        db.close().unwrap();

        let expected: Vec<Entry> = model.clone().into_iter().collect();
        let leveldb = LevelDb::open(&scene.dir, &scene.shape.settings()).unwrap();
        let leveldb_reads: &dyn Reader = &leveldb;
        assert_eq!(leveldb_reads.entries(false), expected);
        assert_eq!(leveldb_reads.entries(true).into_iter().rev().collect::<Vec<_>>(), expected);
        assert_eq!(leveldb_reads.get(&documented(names[0], b"")).unwrap(), b"empty key");
        let ours = documented(b"theirs", b"key");
        Engine::write(
            &leveldb,
            &[Op::Put(ours, b"by LevelDB".to_vec()), Op::Delete(documented(names[0], b""))],
        );
        Engine::compact(&leveldb, None);
        drop(leveldb);

        let db = Db::open(&scene.dir, options()).unwrap();
        let listed = db.keyspaces().unwrap();
        let listed: Vec<_> = listed.iter().map(Keyspace::name).collect();
        assert_eq!(listed, [b"theirs", names[1], names[0], names[3], names[4]]);
        let theirs = db.keyspace("theirs").unwrap();
        assert_eq!(theirs.get("key").unwrap().as_deref(), Some(&b"by LevelDB"[..]));
        let users = db.keyspace("users").unwrap();
        assert_eq!(users.get("").unwrap(), None);
        let prefix = documented(b"users", b"");
        let within = model.keys().filter(|key| key.starts_with(&prefix)).count();
        assert_eq!(users.iter().count(), within - 1);
    }
}

/// Returns the database key and the stored value for an entry of an expiring keyspace, as
/// documented in docs/expiry.md.
fn expiring(name: &[u8], key: &[u8], value: &[u8], millis: u64) -> Entry {
    let key = [&[0xff, 0xfe, 0x6b, 0x74, name.len() as u8], name, key].concat();
    (key, [value, &millis.to_le_bytes()].concat())
}

/// Checks that LevelDB shows expired entries until minikv has removed them, and that minikv hides
/// and removes expired entries that LevelDB's compactions have rewritten.
#[test]
fn an_expiring_keyspace_is_ordinary_entries_to_leveldb() {
    let seed = rng::seed();
    for round in 0..rounds(6) {
        let mut scene = Scene::new("expiry", seed, round);
        scene.shape = Shape { reverse: false, prefix_filter: false, ..scene.shape };
        let clock = Arc::new(AtomicU64::new(1000));
        let open = |shape: &Shape| {
            let now = clock.clone();
            let now = move || UNIX_EPOCH + Duration::from_millis(now.load(Relaxed));
            let options = shape.options().clock(now).write_buffer_bytes(64 << 10);
            Db::open(&scene.dir, options.max_file_bytes(32 << 10)).unwrap()
        };
        let db = open(&scene.shape);
        let space = db.expiring_keyspace("sessions").unwrap();
        // The expiries ascend with the keys, so that some tables expire as a whole.
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for i in 0..4000u64 {
            let (key, value) = (format!("{i:04}"), scene.rng.bytes(40));
            let millis = if i % 1000 == 999 { u64::MAX } else { 2000 + i };
            match millis {
                u64::MAX => space.put(&key, &value).unwrap(),
                _ => space
                    .put_until(&key, &value, UNIX_EPOCH + Duration::from_millis(millis))
                    .unwrap(),
            }
            model.extend([expiring(b"sessions", key.as_bytes(), &value, millis)]);
        }
        if scene.rng.one_in(2) {
            db.compact_range(..).unwrap();
        }
        drop(space);
        db.close().unwrap();

        let leveldb = LevelDb::open(&scene.dir, &scene.shape.settings()).unwrap();
        let stored: Vec<Entry> = model.clone().into_iter().collect();
        assert_eq!((&leveldb as &dyn Reader).entries(false), stored);
        let theirs = [
            expiring(b"sessions", b"theirs", b"alive", 5500),
            expiring(b"sessions", b"0000", b"again", 5500),
        ];
        let puts = theirs.clone().map(|(key, value)| Op::Put(key, value));
        Engine::write(&leveldb, &puts);
        let gone = expiring(b"sessions", b"3998", b"", 0).0;
        Engine::write(&leveldb, &[Op::Delete(gone.clone())]);
        if scene.rng.one_in(2) {
            Engine::compact(&leveldb, None);
        }
        drop(leveldb);
        model.extend(theirs);
        model.remove(&gone);

        clock.store(5000, Relaxed);
        model.retain(|_, stored| u64::from_le_bytes(*stored.last_chunk().unwrap()) > 5000);
        let db = open(&scene.shape.other(&mut scene.rng));
        let space = db.expiring_keyspace("sessions").unwrap();
        assert_eq!(space.iter().count(), model.len());
        assert_eq!(space.get("0000").unwrap().as_deref(), Some(&b"again"[..]));
        assert_eq!(space.get("3998").unwrap(), None);
        db.wait_idle().unwrap();
        db.compact_range(..).unwrap();
        drop(space);
        db.close().unwrap();

        let leveldb = LevelDb::open(&scene.dir, &scene.shape.settings()).unwrap();
        let stored: Vec<Entry> = model.into_iter().collect();
        assert_eq!((&leveldb as &dyn Reader).entries(false), stored);
    }
}
