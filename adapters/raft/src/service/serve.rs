//! Serves the requests of clients and of other nodes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::service::node::{Node, NodeOptions, in_words};
use crate::service::routes::routes;
use crate::service::tls::TlsListener;

const FAILURE_INTERVAL: Duration = Duration::from_millis(200);

impl Node {
    /// Serves requests until `stop` completes or Raft fails, and then stops Raft.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub async fn serve(
        self: Arc<Node>,
        options: &NodeOptions,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), String> {
        let address = options.listen;
        let named = address.to_string();
        let failed = in_words(&named);
        let listener = TcpListener::bind(address).await.map_err(|e| failed(&e))?;
        let tls = options.security.server_config()?;
        let router = routes(&self);
        let served = async {
            match tls {
                Some(tls) => {
                    let listener = TlsListener::new(listener, tls)?;
                    axum::serve(listener, router).await
                }
                None => {
                    use axum::serve::ListenerExt;
                    let listener = listener.tap_io(|stream| {
                        let _ = stream.set_nodelay(true);
                    });
                    axum::serve(listener, router).await
                }
            }
        };
        let result = tokio::select! {
            result = served => result.map_err(|e| failed(&e)),
            () = stop => Ok(()),
            failure = self.failure() => Err(failure),
        };
        self.raft.shutdown().await.map_err(|e| in_words("Raft does not stop")(&e))?;
        result
    }

    /// Waits until Raft stops because of an error, such as a disk error. Polls the metrics, because
    /// waking up at each of their changes would slow down every write.
    async fn failure(&self) -> String {
        loop {
            tokio::time::sleep(FAILURE_INTERVAL).await;
            if let Err(error) = &self.raft.metrics().borrow().running_state {
                return format!("Raft has stopped: {error}");
            }
        }
    }
}
