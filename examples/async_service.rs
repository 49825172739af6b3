//! A store in an async service: `cargo run --example async_service`.
//!
//! Calls of the library may wait for the disk, so an async task must not make them itself: it hands
//! them to a thread that may wait. `Db` is `Send + Sync` and cheap to clone, so that each call can
//! take a clone with it. This example uses tokio; other runtimes have the same under names such as
//! `blocking::unblock`.

use minikv::{Bytes, Db, Readable, Result, WriteBatch, WriteOptions};
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};

#[derive(Clone)]
struct Store(Db);

impl Store {
    /// Calls `work` on a thread that may wait.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Db) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.0.clone();
        match spawn_blocking(move || work(&db)).await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    async fn balance(&self, account: String) -> Result<u64> {
        Ok(amount(self.call(move |db| db.get(account)).await?))
    }

    /// Moves money, durably. Returns whether there was enough. The whole transaction is one call: a
    /// transaction that waits for other tasks in between would only conflict more often.
    async fn pay(&self, from: String, to: String, sum: u64) -> Result<bool> {
        self.call(move |db| {
            db.writing(WriteOptions::default().sync(true)).transact(|tx| {
                let Some(rest) = amount(tx.get(&from)?).checked_sub(sum) else {
                    return Ok(false);
                };
                tx.put(&from, rest.to_be_bytes());
                // Read only now: whoever pays himself has less already.
                let more = amount(tx.get(&to)?) + sum;
                tx.put(&to, more.to_be_bytes());
                Ok(true)
            })
        })
        .await
    }

    /// Returns a page of accounts. A long scan is a call for each page, so that it neither holds a
    /// thread nor collects everything in memory. (A `Snapshot`, kept from page to page, would show
    /// all pages as of one moment.)
    async fn page(&self, after: Option<Bytes>) -> Result<Vec<(Bytes, Bytes)>> {
        self.call(move |db| {
            let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            db.prefix_from("", from)?.take(10).collect()
        })
        .await
    }
}

fn amount(value: Option<Bytes>) -> u64 {
    value.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().expect("8 bytes")))
}

async fn serve(store: Store) -> Result<()> {
    let mut batch = WriteBatch::new();
    (0..25).for_each(|i| batch.put(format!("account{i:02}"), 100u64.to_be_bytes()));
    store.call(move |db| db.write(batch)).await?;

    // Payments that are made at the same time share a sync of the log.
    let mut payments = JoinSet::new();
    for i in 0..200 {
        let (store, from, to) = (store.clone(), i % 25, i % 5);
        payments.spawn(async move {
            store.pay(format!("account{from:02}"), format!("account{to:02}"), 30).await
        });
    }
    let mut made = 0;
    while let Some(payment) = payments.join_next().await {
        made += u32::from(payment.expect("no panic")?);
    }
    println!("{made} of 200 payments made");
    println!("account03 has {}", store.balance("account03".to_string()).await?);

    let (mut last, mut sum) = (None, 0);
    loop {
        let page = store.page(last).await?;
        sum += page.iter().map(|(_, value)| amount(Some(value.clone()))).sum::<u64>();
        let Some((key, _)) = page.last() else { break };
        last = Some(key.clone());
    }
    assert_eq!((made, sum), (100, 25 * 100), "money neither comes nor goes");
    store.call(|db| db.clone().close()).await
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::create(home.path().join("db"))?;
    // One thread runs the tasks; eight may wait for the database.
    let runtime = Builder::new_current_thread().max_blocking_threads(8).build();
    runtime.expect("a runtime").block_on(serve(Store(db)))
}
