//! The configuration file.
//!
//! ```
//! let config: controller::Config = toml::from_str(r#"state = "/var/lib/weft""#).unwrap();
//! assert_eq!(config.listen.to_string(), "127.0.0.1:6657");
//! ```

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// The configuration of a controller: a TOML file. Unknown members are errors.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The folder of the journal. One controller uses it at a time. A relative path counts from the file's folder.
    #[serde(default = "default_state")]
    pub state: PathBuf,
    /// Where the API listens: `ADDRESS:PORT` or `unix:/PATH`. Whoever can connect can change the network, so the
    /// default is this machine alone; the port is near those of OVSDB (6640) and OpenFlow (6653), and nobody's.
    #[serde(default)]
    pub listen: Listen,
    /// A folder of rules in place of those built in; a relative path counts from the file's folder.
    #[serde(default)]
    pub rules: Option<PathBuf>,
    /// How many threads compute; results do not depend on it.
    #[serde(default = "default_workers")]
    pub workers: NonZeroUsize,
    /// What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`), or levels by module, as
    /// `info,switch=debug`.
    #[serde(default = "default_log")]
    pub log: String,
}

/// Where the API listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix socket, by its absolute path. Its owner and group can connect.
    Unix(PathBuf),
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file's contents are at fault.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in Unicode scalar values.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

impl Config {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.to_owned(), source })?;
        let mut config: Config = toml::from_str(&text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
            ConfigError::Content {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message: error.message().to_owned(),
            }
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        config.state = folder.join(&config.state);
        config.rules = config.rules.map(|rules| folder.join(rules));
        Ok(config)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            state: default_state(),
            listen: Listen::default(),
            rules: None,
            workers: default_workers(),
            log: default_log(),
        }
    }
}

fn default_state() -> PathBuf {
    PathBuf::from("/var/lib/weft")
}

fn default_workers() -> NonZeroUsize {
    NonZeroUsize::MIN
}

fn default_log() -> String {
    "info".to_owned()
}

impl Default for Listen {
    fn default() -> Self {
        Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 6657)))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Listen::Unix(PathBuf::from(path))),
            Some(_) => Err(format!("{text:?}: a socket's path must be absolute, as unix:/run/weft.sock")),
            None => text.parse().map(Listen::Tcp).map_err(|_| {
                format!("{text:?} is nowhere to listen; write ADDRESS:PORT (as 127.0.0.1:6657) or unix:/PATH")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_can_be_left_out() {
        assert_eq!(toml::from_str::<Config>("").unwrap(), Config::default());
    }

    #[test]
    fn faults_come_with_file_line_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.toml");
        let cases = [
            ("state = \"s\"\nlissen = \"\"\n", ":2:1: unknown field `lissen`"),
            ("listen = \"unix:weft.sock\"", ":1:10: \"unix:weft.sock\": a socket's path must be absolute"),
            ("listen = \"localhost\"", ":1:10: \"localhost\" is nowhere to listen"),
            ("workers = 0", ":1:11: "),
            ("log = ", ":1:7: "),
        ];
        for (text, wanted) in cases {
            fs::write(&path, text).unwrap();
            let error = Config::load(&path).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let error = Config::load(&folder.path().join("none.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the configuration "), "{error}");
    }

    #[test]
    fn relative_paths_count_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.toml");
        fs::write(&path, "state = \"state\"\nrules = \"/usr/share/weft/rules\"\n").unwrap();
        let config = Config::load(&path).unwrap();
        assert_eq!(config.state, folder.path().join("state"));
        assert_eq!(config.rules, Some(PathBuf::from("/usr/share/weft/rules")));
    }
}
