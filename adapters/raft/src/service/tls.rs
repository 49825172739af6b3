//! TLS certificates and the token. Without them, a node may listen only on a loopback address.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 22;
/// The answer to a client that does not speak TLS.
const PLAIN_ANSWER: &str = concat!(
    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n",
    "content-length: 80\r\n\r\n",
    r#"{"error":"this node speaks TLS: use https, or give minikv-raft the option --ca"}"#
);
const MIN_TOKEN_BYTES: usize = 16;

/// The files for secure connections. All of them are PEM files except the token file, which is a
/// line of text.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Security {
    /// Certificate chain of this node, in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub trust: Trust,
}

/// The files that a client needs for secure connections.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Trust {
    /// Certificate authority of the nodes, in PEM. With this option, connections use TLS.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// File with the token that every request must contain.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

fn in_file(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> String {
    move |error| format!("{}: {error}", path.display())
}

impl Trust {
    /// Reads the token from the token file. Returns the header value with the token, or `None` if
    /// the options name no token file.
    ///
    /// # Errors
    /// A message that names the file.
    pub fn token(&self) -> Result<Option<Arc<HeaderValue>>, String> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|e| in_file(path)(&e))?;
        let token = text.trim();
        if token.len() < MIN_TOKEN_BYTES {
            return Err(in_file(path)(&format!(
                "a token has at least {MIN_TOKEN_BYTES} characters"
            )));
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| in_file(path)(&"a token is one line of printable characters"))?;
        value.set_sensitive(true);
        Ok(Some(Arc::new(value)))
    }

    /// Reads the certificate authority from its file. Returns the TLS configuration for clients, or
    /// `None` if the options name no such file.
    ///
    /// # Errors
    /// A message that names the file.
    pub fn client_config(&self) -> Result<Option<ClientConfig>, String> {
        let Some(path) = &self.ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(path).map_err(|e| in_file(path)(&e))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|e| in_file(path)(&e))?;
            roots.add(certificate).map_err(|e| in_file(path)(&e))?;
        }
        if roots.is_empty() {
            return Err(in_file(path)(&"no certificate in it"));
        }
        Ok(Some(config_with(roots)))
    }
}

/// Returns a TLS configuration that trusts no certificate authority, for clients that do not use
/// TLS.
pub(crate) fn no_authorities() -> ClientConfig {
    config_with(RootCertStore::empty())
}

fn config_with(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the suites of the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Security {
    /// Reads the certificate and the key from their files. Returns the TLS configuration for
    /// servers, or `None` if the options name no such files.
    ///
    /// # Errors
    /// A message that names the file.
    pub fn server_config(&self) -> Result<Option<ServerConfig>, String> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let chain = CertificateDer::pem_file_iter(cert)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
            .map_err(|e| in_file(cert)(&e))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|e| in_file(key)(&e))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| in_file(cert)(&e))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|e| in_file(cert)(&e))?;
        Ok(Some(config))
    }

    /// Refuses an address that other machines can reach, unless the options name a certificate, a
    /// certificate authority and a token.
    ///
    /// # Errors
    /// A message that lists the missing options.
    pub fn check_address(&self, address: &SocketAddr) -> Result<(), String> {
        let missing: Vec<&str> = [
            (self.cert.is_none(), "--cert and --key"),
            (self.trust.ca.is_none(), "--ca"),
            (self.trust.token_file.is_none(), "--token-file"),
        ]
        .iter()
        .filter_map(|(is_missing, name)| is_missing.then_some(*name))
        .collect();
        if address.ip().is_loopback() || missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{address} can be reached from other machines: that needs TLS and a token, so give {}",
            missing.join(", ")
        ))
    }
}

/// Accepts TLS connections. Clones share the configuration.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(crate) fn new(config: ServerConfig) -> Acceptor {
        Acceptor(TlsAcceptor::from(Arc::new(config)))
    }

    /// Begins TLS on a connection. If the client does not speak TLS, tells it so and returns
    /// `None`.
    pub(crate) async fn accept(
        &self,
        mut stream: TcpStream,
    ) -> io::Result<Option<TlsStream<TcpStream>>> {
        let begin = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first != [TLS_HANDSHAKE] {
                stream.write_all(PLAIN_ANSWER.as_bytes()).await?;
                // A connection that is closed with unread bytes loses the answer.
                let mut rest = [0; 4096];
                stream.shutdown().await?;
                while stream.read(&mut rest).await? > 0 {}
                return Ok(None);
            }
            self.0.accept(stream).await.map(Some)
        };
        match tokio::time::timeout(HANDSHAKE, begin).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
