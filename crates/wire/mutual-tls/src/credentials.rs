//! Certificates, keys, authorities and revocation lists, from files.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tracing::{info, warn};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::by_name::{ByName, whatever_its_name};

/// The protocols of the API. Open vSwitch names none, and gets none.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The permission bits of other users.
const OTHERS: u32 = 0o007;

/// The files of a certificate and its key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, and after it those of intermediate authorities. With that of the root too, `ovs-vsctl --bootstrap set-ssl` works.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The files of an identity, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// What is shown to others. Clients of an API who have a token need none.
    pub own: Option<Pair>,
    /// The authorities whose certificates are trusted. Several during the change from one to another.
    pub authorities: PathBuf,
    /// The revocation lists of these authorities. Certificates of an authority without a list are not revoked.
    pub revoked: Option<PathBuf>,
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// Every user can read the key.
    #[error("every user can read the key {path}; run `chmod 600 {path}`", path = path.display())]
    OpenKey {
        /// The file.
        path: PathBuf,
    },
    /// Contents of the files are missing, or do not fit together.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
}

/// A certificate with its key, and the authorities that are trusted. The files can change at any time.
#[derive(Debug)]
pub struct Credentials {
    files: Files,
    loaded: RwLock<Arc<Loaded>>,
}

/// What the files contained.
#[derive(Debug)]
pub(crate) struct Loaded {
    stamps: Vec<Option<Stamp>>,
    own: Option<Own>,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

/// A certificate with its key, and what it serves with.
#[derive(Debug)]
struct Own {
    chain: Vec<CertificateDer<'static>>,
    /// When the first of them expires.
    not_after: Option<SystemTime>,
    key: PrivateKeyDer<'static>,
    /// For clients who must show a certificate.
    closed: Arc<ServerConfig>,
    /// For clients who may show one.
    open: Arc<ServerConfig>,
}

/// What becomes of clients who show no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strangers {
    /// The handshake fails.
    Refused,
    /// They are served, and say in another way who they are.
    Admitted,
}

/// What changes when a file is written or replaced: inode, size, time in nanoseconds.
type Stamp = (u64, u64, i64, i64);

impl Credentials {
    /// Reads the files.
    pub fn load(files: Files) -> Result<Arc<Credentials>, CredentialsError> {
        let loaded = RwLock::new(Arc::new(Loaded::read(&files)?));
        Ok(Arc::new(Credentials { files, loaded }))
    }

    /// Reads the files again if they have changed. Returns whether they had. If they cannot be used, what was read before stays in use.
    pub fn reload(&self) -> Result<bool, CredentialsError> {
        if self.loaded().stamps == stamps(&self.files) {
            return Ok(false);
        }
        let loaded = Arc::new(Loaded::read(&self.files)?);
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(true)
    }

    /// Reads the files again whenever they change, and logs that. Never completes.
    pub async fn follow(self: Arc<Self>) {
        let mut last = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let certificate = self.files.own.as_ref().map(|own| own.certificate.display().to_string());
            match self.reload() {
                Ok(false) => {}
                Ok(true) => {
                    last = None;
                    info!(certificate, "certificates read again; new connections use them");
                }
                // A moment between two files of a pair is no fault worth a line, a second of it is; the same one is not said again.
                Err(error) => {
                    let text = error.to_string();
                    if last.as_ref() != Some(&text) {
                        warn!(
                            error = text,
                            "the changed certificates cannot be used; the former ones stay in use"
                        );
                        last = Some(text);
                    }
                }
            }
        }
    }

    /// When its own certificate expires, or one of its authorities that it comes with.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.loaded().own.as_ref()?.not_after
    }

    /// The file of the certificate that is shown to others.
    pub(crate) fn shown(&self) -> Option<&Path> {
        self.files.own.as_ref().map(|own| own.certificate.as_path())
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Loaded {
    fn read(files: &Files) -> Result<Loaded, CredentialsError> {
        // Before the contents: a change between both is seen the next time.
        let stamps = stamps(files);
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authorities)? {
            roots.add(certificate).map_err(|error| unusable(&files.authorities, error))?;
        }
        let roots = Arc::new(roots);
        let lists = files.revoked.as_deref().map(lists).transpose()?.unwrap_or_default();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_lists = files.revoked.as_deref().unwrap_or(&files.authorities);
        let clients = |strangers: Strangers| {
            let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
                .with_crls(lists.clone())
                .allow_unknown_revocation_status();
            let clients = match strangers {
                Strangers::Refused => clients,
                Strangers::Admitted => clients.allow_unauthenticated(),
            };
            clients.build().map_err(|error| unusable(of_lists, error))
        };
        let (closed, open) = (clients(Strangers::Refused)?, clients(Strangers::Admitted)?);
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
            .with_crls(lists.clone())
            .allow_unknown_revocation_status();
        let servers = servers.build().map_err(|error| unusable(of_lists, error))?;
        let own = files.own.as_ref().map(|pair| Own::read(pair, [closed.clone(), open], &provider));
        Ok(Loaded { stamps, own: own.transpose()?, clients: closed, servers, provider })
    }

    /// For a connection of a client, who may show no certificate if strangers are admitted.
    pub(crate) fn server(&self, strangers: Strangers) -> Result<Arc<ServerConfig>, rustls::Error> {
        let none = || rustls::Error::General("there is no certificate to serve with".to_owned());
        let own = self.own.as_ref().ok_or_else(none)?;
        Ok(match strangers {
            Strangers::Refused => own.closed.clone(),
            Strangers::Admitted => own.open.clone(),
        })
    }

    /// For a connection to a switch, which must have this name.
    pub(crate) fn to_switch(&self, name: &str) -> Result<Arc<ClientConfig>, rustls::Error> {
        let verifier = ByName { inner: self.servers.clone(), name: name.to_owned() };
        let config =
            self.client(|builder| builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)))?;
        Ok(Arc::new(config))
    }

    /// For a connection to a controller, whose certificate must have the name or the address that is dialled.
    pub(crate) fn to_controller(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut config = self.client(|builder| builder.with_webpki_verifier(self.servers.clone()))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    fn client(
        &self,
        verified: impl FnOnce(
            rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
        ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>,
    ) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(self.provider.clone());
        let builder = verified(builder.with_safe_default_protocol_versions()?);
        let mut config = match &self.own {
            Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
            None => builder.with_no_client_auth(),
        };
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    /// Whether a client's certificate is still good.
    pub(crate) fn check_client(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let (certificate, others) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        self.clients.verify_client_cert(certificate, others, UnixTime::now()).map(drop)
    }

    /// Whether the certificate of a server is still good. Its name was compared when the connection began.
    pub(crate) fn check_server(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let (certificate, others) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let any = ServerName::from(Ipv4Addr::UNSPECIFIED);
        whatever_its_name(self.servers.verify_server_cert(certificate, others, &any, &[], UnixTime::now()))
    }
}

impl Own {
    /// Reads the files. The verifiers are those of clients who must show a certificate, and who may show one.
    fn read(
        pair: &Pair,
        verifiers: [Arc<dyn ClientCertVerifier>; 2],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Own, CredentialsError> {
        let (chain, key) = (certificates(&pair.certificate)?, key(&pair.key)?);
        let server = |clients| {
            let server = ServerConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .map_err(|error| unusable(&pair.certificate, error))?
                .with_client_cert_verifier(clients)
                .with_single_cert(chain.clone(), key.clone_key());
            let mut server = server.map_err(|error| {
                let why = format!("{error}; its key is expected in {}", pair.key.display());
                unusable(&pair.certificate, why)
            })?;
            server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
            Ok(Arc::new(server))
        };
        let [closed, open] = verifiers.map(server);
        Ok(Own { closed: closed?, open: open?, not_after: expiry(&chain), chain, key })
    }
}

/// When the first of these certificates expires. One that cannot be read is left out: whoever is shown it says so.
fn expiry(chain: &[CertificateDer<'_>]) -> Option<SystemTime> {
    let of = |certificate: &CertificateDer<'_>| {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    chain.iter().filter_map(of).min()
}

fn stamps(files: &Files) -> Vec<Option<Stamp>> {
    let Files { own, authorities, revoked } = files;
    let own = own.iter().flat_map(|Pair { certificate, key }| [certificate, key]);
    let stamp = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    };
    own.chain([authorities]).chain(revoked).map(stamp).collect()
}

/// All of a kind in a file, at least one.
fn all<T: PemObject>(path: &Path, kind: &str) -> Result<Vec<T>, CredentialsError> {
    let found: Result<Vec<T>, _> = T::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|error| unusable(path, error))?;
    if found.is_empty() { Err(unusable(path, format!("it has no {kind} in PEM"))) } else { Ok(found) }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    all(path, "certificate")
}

fn lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, CredentialsError> {
    all(path, "revocation list")
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, CredentialsError> {
    let mode = fs::metadata(path).map_err(|error| unreadable(path, error))?.mode();
    if mode & OTHERS != 0 {
        return Err(CredentialsError::OpenKey { path: path.to_owned() });
    }
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|error| unusable(path, format!("it has no private key in PEM without a password: {error}")))
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    fs::read(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: io::Error) -> CredentialsError {
    CredentialsError::Unreadable { path: path.to_owned(), why: error.to_string() }
}

fn unusable(path: &Path, why: impl ToString) -> CredentialsError {
    CredentialsError::Unusable { path: path.to_owned(), why: why.to_string() }
}
