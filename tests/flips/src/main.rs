//! Does one phase: `minikv-flips PHASE DIR`. Says that it is ready, and waits for a line.

use std::process::ExitCode;

use minikv::{Db, Error};
use minikv_flips::{PHASES, options};

/// The database, or the check of what it gave, said what is wrong.
const TOLD: u8 = 3;

/// The phase gave something else than was put.
const SILENT: u8 = 4;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (name, dir) = (words.next().expect("a phase"), words.next().expect("a directory"));
    let phase = PHASES.into_iter().find(|phase| phase.name() == name).expect("a known phase");
    let work = || -> Result<Result<(), String>, Error> {
        let db = Db::open(dir, options())?;
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).expect("a line");
        let done = phase.work(&db)?;
        db.close()?;
        Ok(done)
    };
    match work() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(wrong)) => {
            eprintln!("{wrong}");
            ExitCode::from(SILENT)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(TOLD)
        }
    }
}
