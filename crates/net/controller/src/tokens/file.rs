//! The file of tokens: a table in TOML for each, with the hash of its text.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mutual_tls::{Identity, Role};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use weft_core::times::to_the_second;

/// What each token begins with, so that those who find one know what it is.
const PREFIX: &str = "weft_";
/// The bytes of an id, and of what is secret. A guess of 32 random bytes is hopeless, so one round of a hash is enough.
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;
/// The first lines of the file.
const HEAD: &str = "# Written by `weft token`. It has hashes of tokens, not the tokens.\n\n";

/// A token, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// What its text has in front of the secret.
    pub id: String,
    /// The name of its owner.
    pub name: String,
    /// What its owner may do: `operator` or `viewer`.
    pub role: String,
    /// The SHA-256 of its text, in hexadecimal digits.
    hash: String,
    /// When it was made: RFC 3339, UTC.
    pub created: String,
    /// Until when it is good: RFC 3339, UTC.
    pub expires: String,
}

/// All tokens of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenFile {
    #[serde(default, rename = "token")]
    tokens: Vec<Token>,
}

/// A new token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What it is.
    pub token: Token,
    /// Its text, which is kept nowhere.
    pub text: String,
}

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read or written.
    #[error("cannot {what} the tokens in {}: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is no file of tokens.
    #[error("{}: {why}; `weft token` writes this file", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

impl Token {
    /// Who has it.
    pub(super) fn identity(&self) -> Identity {
        Identity { name: self.name.clone(), role: self.granted() }
    }

    fn granted(&self) -> Option<Role> {
        Role::of(&self.role).filter(|role| matches!(role, Role::Operator | Role::Viewer | Role::Tenant(_)))
    }

    /// Whether it is good no more.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        !humantime::parse_rfc3339(&self.expires).is_ok_and(|expires| now < expires)
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        let Token { id, role, hash, expires, .. } = self;
        if self.granted().is_none() {
            return Some(format!(
                "token {id} has the role {role:?} instead of operator, viewer or tenant:TENANT"
            ));
        }
        if humantime::parse_rfc3339(expires).is_err() {
            return Some(format!("token {id} expires at {expires:?}, which is no time in UTC"));
        }
        let is_hash = hash.len() == 2 * SHA256.output_len();
        (!is_hash).then(|| format!("token {id} has a hash of {} characters", hash.len()))
    }
}

impl TokenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It does not exist, cannot be read, or is no file of tokens.
    pub fn read(path: &Path) -> Result<TokenFile, TokenFileError> {
        let text = fs::read_to_string(path).map_err(failed("read", path))?;
        let content = |why| TokenFileError::Content { path: path.to_owned(), why };
        let file: TokenFile = toml::from_str(&text).map_err(|error| content(error.message().to_owned()))?;
        match file.tokens.iter().find_map(Token::fault) {
            Some(fault) => Err(content(fault)),
            None => Ok(file),
        }
    }

    /// Writes the file as a whole, for its owner alone.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), TokenFileError> {
        let text = toml::to_string(self).map_err(|error| failed("write", path)(io::Error::other(error)))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let written = || -> io::Result<()> {
            let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
            file.write_all(HEAD.as_bytes())?;
            file.write_all(text.as_bytes())?;
            file.as_file().set_permissions(Permissions::from_mode(0o600))?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        written().map_err(failed("write", path))
    }

    /// The tokens, in the order in which they were made.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Adds a token.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn create(
        &mut self,
        name: &str,
        role: &Role,
        now: SystemTime,
        expires: SystemTime,
    ) -> Result<Granted, TokenFileError> {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| TokenFileError::Random)?;
        let (id, secret) = bytes.split_at(ID_BYTES);
        let (id, secret) = (hexadecimal(id), hexadecimal(secret));
        let text = format!("{PREFIX}{id}_{secret}");
        let token = Token {
            id,
            name: name.to_owned(),
            role: role.to_string(),
            hash: hash(&text),
            created: to_the_second(now),
            expires: to_the_second(expires),
        };
        self.tokens.push(token.clone());
        Ok(Granted { token, text })
    }

    /// Removes the token with this id, or all tokens of this name. Returns them.
    pub fn revoke(&mut self, id_or_name: &str) -> Vec<Token> {
        self.tokens.extract_if(.., |token| token.id == id_or_name || token.name == id_or_name).collect()
    }

    /// The token with this text.
    pub(super) fn find(&self, text: &str) -> Option<&Token> {
        let (id, _) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let token = self.tokens.iter().find(|token| token.id == id)?;
        // How long a comparison of hashes takes tells nothing about a text that nobody can choose by its hash.
        (token.hash == hash(text)).then_some(token)
    }
}

fn hash(text: &str) -> String {
    hexadecimal(digest(&SHA256, text.as_bytes()).as_ref())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TokenFileError {
    let path = path.to_owned();
    move |source| TokenFileError::Io { what, path, source }
}
