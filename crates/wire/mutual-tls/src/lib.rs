//! TLS with certificates on both sides, for the API, OVSDB and OpenFlow.
//!
//! - [`Credentials`] are a certificate, its key, the authorities that are trusted and their revocation lists, from files that are read
//!   again when they change.
//! - [`Identity`] is the subject of a certificate: its name, and its role if it states one.
//! - [`SecureStream`] is a connection whose peer has shown a certificate. It ends within [`RECHECK`] after that certificate has expired,
//!   was revoked, or has lost its authority.
//!
//! TLS 1.2 and 1.3 by rustls, with the cryptography of ring. Sessions are not resumed: a resumed one would show a certificate that was
//! checked long ago.
#![forbid(unsafe_code)]
// Bytes from outside must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod by_name;
mod credentials;
mod explained;
mod identity;
mod stream;

pub use credentials::{Credentials, CredentialsError, Files, Pair, Strangers};
pub use identity::{AlternativeName, Identity, Role, alternative_names};
pub use stream::{HANDSHAKE_MAX, RECHECK, SecureStream};
