//! Bearer tokens: who calls the API without a certificate.
//!
//! `weft token` writes a [file](TokenFile) with the hash of each token, and a controller reads it again when it changes. The text of a token is
//! nowhere but with its owner.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mutual_tls::Identity;
use tracing::{info, warn};

mod file;

pub use file::{Granted, Token, TokenFile, TokenFileError};

/// How often the file is looked at, if anybody calls.
const LOOK: Duration = Duration::from_secs(1);

/// The tokens in a file, which can change at any time.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    file: TokenFile,
    stamp: Option<Stamp>,
    looked: Instant,
    /// Why the present file cannot be used, so that the former one still counts.
    fault: Option<String>,
}

/// What changes when a file is written or replaced.
type Stamp = (SystemTime, u64);

/// Somebody who has shown a good token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) identity: Identity,
    /// The id of the token.
    pub(crate) id: String,
}

/// Why a token gives no access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    /// It is none of the file.
    #[error("the token is unknown or was revoked; `weft token create` makes one")]
    Unknown,
    /// It was good until some time ago.
    #[error("the token has expired; `weft token create` makes another one")]
    Expired,
}

impl Tokens {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is no file of tokens.
    pub fn open(path: &Path) -> Result<Tokens, TokenFileError> {
        let stamp = stamp(path);
        let file = TokenFile::read(path)?;
        let known = Mutex::new(Known { file, stamp, looked: Instant::now(), fault: None });
        Ok(Tokens { path: path.to_owned(), known })
    }

    /// Whose token this is.
    pub(crate) fn bearer(&self, text: &str, now: SystemTime) -> Result<Bearer, BadToken> {
        let known = self.known();
        let token = known.file.find(text).ok_or(BadToken::Unknown)?;
        if token.is_expired(now) {
            return Err(BadToken::Expired);
        }
        Ok(Bearer { identity: token.identity(), id: token.id.clone() })
    }

    /// Whether the token with this id is still good.
    pub(crate) fn is_good(&self, id: &str, now: SystemTime) -> bool {
        self.known().file.tokens().iter().any(|token| token.id == id && !token.is_expired(now))
    }

    /// What the file contains now.
    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.elapsed() >= LOOK {
            known.look(&self.path);
        }
        known
    }
}

impl Known {
    /// Reads the file again if it has changed. If it cannot be used, what was read before still counts.
    fn look(&mut self, path: &Path) {
        self.looked = Instant::now();
        let stamp = stamp(path);
        if stamp == self.stamp {
            return;
        }
        match TokenFile::read(path) {
            Ok(file) => {
                info!(file = %path.display(), tokens = file.tokens().len(), "tokens read again");
                (self.file, self.stamp, self.fault) = (file, stamp, None);
            }
            Err(error) => {
                let text = error.to_string();
                if self.fault.as_ref() != Some(&text) {
                    warn!(error = text, "the changed tokens cannot be used; the former ones still count");
                    self.fault = Some(text);
                }
            }
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = || -> io::Result<Stamp> {
        let metadata = std::fs::metadata(path)?;
        Ok((metadata.modified()?, metadata.len()))
    };
    found().ok()
}

#[cfg(test)]
mod tests;
