//! A program that writes to a database until it has written all entries or is killed:
//! `writer minikv|plain-minikv|leveldb|paranoid|reuse DIR ACKS PREFIX COUNT KIND`,
//! `writer cycle|cycle-reuse DIR ACKS FIRST COUNT 0`.
//!
//! KIND determines the sizes of minikv's values, how often they are synced, and whether minikv
//! reuses logs. LevelDB's values are small, and all of them are synced. The number of acknowledged
//! puts is written to the file ACKS. If `leveldb`, `paranoid` or `reuse` cannot open the database,
//! LevelDB's error goes to standard output, after `refused: `.
//!
//! With `cycle`, LevelDB writes to 500 keys in turn. The values are ascending numbers, beginning
//! with FIRST. The puts are not synced, and the write buffer is small, so that logs and tables are
//! often created and removed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use minikv::{Db, Options, WriteOptions};
use minikv_interop::{LevelDb, Settings, value_of};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, program, dir, acks, prefix, count, kind] = &args[..] else { panic!("see the source") };
    let (dir, acks) = (Path::new(dir), File::create(acks).expect("a file"));
    let (count, kind): (u64, u64) = (count.parse().unwrap(), kind.parse().unwrap());
    let entries = (1..=count).map(|number| {
        let key = format!("{prefix}{number:08}");
        (number, key.clone(), value_of(&key, kind, number))
    });
    let done = |number: u64| acks.write_all_at(&number.to_le_bytes(), 0).expect("a note");
    if let "minikv" | "plain-minikv" = &program[..] {
        let options = Options::default()
            .create_if_missing(true)
            .reuse_logs(kind.is_multiple_of(2))
            .preallocate_logs(program == "minikv");
        let db = Db::open(dir, options).expect("it opens");
        for (number, key, value) in entries {
            let sync = match kind % 3 {
                0 => false,
                1 => number % 7 == 0,
                _ => number / 300 % 2 == 1,
            };
            db.writing(WriteOptions::default().sync(sync)).put(key, value).expect("a put");
            done(number);
        }
        return;
    }
    if program.starts_with("cycle") {
        let settings = Settings {
            write_buffer_bytes: 64 << 10,
            reuse_logs: program == "cycle-reuse",
            ..Settings::default()
        };
        let db = LevelDb::open(dir, &settings).expect("it opens");
        let first: u64 = prefix.parse().expect("a number");
        for number in first..first + count {
            let value = format!("{number}:{}", "v".repeat(number as usize % 900));
            db.put(format!("{:04}", number % 500).as_bytes(), value.as_bytes()).expect("a put");
            done(number);
        }
        return;
    }
    let settings = Settings {
        paranoid_checks: program == "paranoid",
        reuse_logs: program == "reuse",
        ..Settings::default()
    };
    match LevelDb::open(dir, &settings) {
        Err(error) => println!("refused: {error}"),
        Ok(db) => {
            for (number, key, _) in entries {
                let value = format!("value of {key}");
                db.put_synced(key.as_bytes(), value.as_bytes()).expect("a put");
                done(number);
            }
        }
    }
}
