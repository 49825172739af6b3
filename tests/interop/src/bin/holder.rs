//! Holds a database open in a process of its own: `holder minikv|leveldb DIR`.
//!
//! Prints `held`, or `refused: ` and the reason. Ends when its standard input is closed.

use std::io::{Read, stdin};
use std::path::Path;

use minikv::Db;
use minikv_interop::{LevelDb, Settings};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (engine, dir) = (arguments[1].as_str(), Path::new(&arguments[2]));
    let held: Result<Box<dyn std::any::Any>, String> = match engine {
        "minikv" => {
            let db = Db::create(dir);
            db.map(|db| Box::new(db) as _).map_err(|error| error.to_string())
        }
        "leveldb" => {
            let settings = Settings { create_if_missing: true, ..Settings::default() };
            LevelDb::open(dir, &settings).map(|db| Box::new(db) as _)
        }
        other => panic!("no engine {other}"),
    };
    match &held {
        Ok(_) => println!("held"),
        Err(why) => println!("refused: {why}"),
    }
    stdin().read_to_end(&mut Vec::new()).expect("standard input");
}
