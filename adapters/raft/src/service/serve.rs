//! Serves the requests of clients and of other nodes.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

use crate::service::caretaker;
use crate::service::connections::{Connections, Slot};
use crate::service::node::{Node, NodeOptions, in_words};
use crate::service::routes::routes;
use crate::service::tls::Acceptor;

const FAILURE_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit for the head of a request, and for the time between two requests of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an error of `accept`, such as too few descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address on which a node listens.
pub struct Listening {
    listener: TcpListener,
    acceptor: Option<Acceptor>,
    connections: Arc<Connections>,
}

impl Listening {
    /// Listens on the address in `options`. Connections wait until the node serves them.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub async fn bind(options: &NodeOptions) -> Result<Listening, String> {
        let named = options.listen.to_string();
        let listener = TcpListener::bind(options.listen).await;
        let listener = listener.map_err(|e| in_words(&named)(&e))?;
        let acceptor = options.security.server_config()?.map(Acceptor::new);
        let connections = Connections::new(options.max_connections);
        Ok(Listening { listener, acceptor, connections })
    }

    /// Serves connections, forever.
    async fn serve(self, router: Router) {
        let Listening { listener, acceptor, connections } = self;
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Without a slot, the connection is closed at once.
            let Some(slot) = connections.admit() else { continue };
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let closed = slot.clone();
                tokio::select! {
                    _ = answer(stream, acceptor, router, slot) => {}
                    () = closed.closed() => {}
                }
            });
        }
    }
}

async fn answer(
    stream: TcpStream,
    acceptor: Option<Acceptor>,
    router: Router,
    slot: Arc<Slot>,
) -> io::Result<()> {
    let _ = stream.set_nodelay(true);
    match acceptor {
        Some(acceptor) => match acceptor.accept(stream).await? {
            Some(stream) => answer_on(stream, router, slot).await,
            None => Ok(()),
        },
        None => answer_on(stream, router, slot).await,
    }
}

async fn answer_on<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    slot: Arc<Slot>,
) -> io::Result<()> {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(|body| slot.receive(body));
        request.extensions_mut().insert(slot.clone());
        let (response, slot) = (router.call(request), slot.clone());
        async move { Ok::<_, Infallible>(response.await?.map(|body| slot.send(body))) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)
}

impl Node {
    /// Serves requests until `stop` completes or Raft fails, and then stops Raft.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub async fn serve(
        self: Arc<Node>,
        listening: Listening,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), String> {
        tokio::spawn(caretaker::run(Arc::downgrade(&self)));
        let result = tokio::select! {
            () = listening.serve(routes(&self)) => Ok(()),
            () = stop => Ok(()),
            failure = self.fails() => Err(failure),
        };
        self.raft.shutdown().await.map_err(|e| in_words("Raft does not stop")(&e))?;
        result
    }

    /// Waits until Raft stops because of an error, such as a disk error, or a panic. Polls the
    /// metrics, because waking up at each of their changes would slow down every write.
    async fn fails(&self) -> String {
        loop {
            tokio::time::sleep(FAILURE_INTERVAL).await;
            if let Some(failure) = self.failure() {
                return format!("Raft has stopped: {failure}");
            }
        }
    }
}
