//! `weft token`: bearer tokens for clients without a certificate.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use controller::tokens::{Granted, Token, TokenFile, TokenFileError};
use serde_json::json;

use crate::columns::aligned;
use crate::exit::{Failure, print, print_as, say};
use crate::pki::{Grant, Name, days};

/// The days for which a token is good unless somebody says otherwise.
const DAYS: u32 = 90;
const DAY: Duration = Duration::from_hours(24);

/// Arguments of `weft token`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft token create ci --role viewer            prints a token, which no file keeps\n  \
        weft token create ci --role viewer --days 7   … that expires within a week\n  \
        weft token list                               who has which, until when\n  \
        weft token revoke ci                          all tokens of a name\n\n\
        The file has the hash of each token: the controller reads it (`tokens` in its configuration), and\n\
        changes count within a second. A client sends a token with each request: `weft` that in WEFT_TOKEN,\n\
        or in the file that `token_file` of a context names, and others the header\n\
        `authorization: Bearer TOKEN`. Without encryption, it is sent on this machine alone.")]
pub(crate) struct TokenCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a token and print it
    Create(Create),
    /// List the tokens: name, role, expiry
    List(List),
    /// Revoke a token, or all tokens of a name
    Revoke(Revoke),
}

/// Where the hashes are.
#[derive(Args)]
struct File {
    /// The file of hashes
    #[arg(long, value_name = "FILE", default_value = "tokens.toml")]
    file: PathBuf,
}

#[derive(Args)]
#[command(
    after_help = "A viewer may see all, a tenant change what belongs to it, and an operator change all.\n\
        The token is printed once."
)]
struct Create {
    /// Whose token it is; a name can have several
    name: Name,
    #[command(flatten)]
    grant: Grant,
    /// Days for which it is good
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = days())]
    days: u32,
    #[command(flatten)]
    file: File,
}

#[derive(Args)]
struct List {
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: File,
}

#[derive(Args)]
#[command(
    after_help = "The controller refuses a revoked token within a second, and ends its long answers within ten."
)]
struct Revoke {
    /// A name, or the id of one token
    #[arg(value_name = "NAME|ID")]
    name_or_id: String,
    #[command(flatten)]
    file: File,
}

impl TokenCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Create(create) => create.run(),
            Command::List(list) => list.run(),
            Command::Revoke(revoke) => revoke.run(),
        }
    }
}

fn failed(error: TokenFileError) -> Failure {
    match error {
        TokenFileError::Content { .. } => Failure::Rejected(error.to_string()),
        TokenFileError::Io { .. } | TokenFileError::Random => Failure::Outside(error.to_string()),
    }
}

impl File {
    fn read(&self) -> Result<TokenFile, Failure> {
        TokenFile::read(&self.file).map_err(failed)
    }

    /// The same; a file that does not exist has no tokens.
    fn read_or_new(&self) -> Result<TokenFile, Failure> {
        if self.file.try_exists().is_ok_and(|exists| !exists) {
            Ok(TokenFile::default())
        } else {
            self.read()
        }
    }

    fn write(&self, tokens: &TokenFile) -> Result<(), Failure> {
        tokens.write(&self.file).map_err(failed)
    }

    /// Waits until no other command changes a file of this folder. It holds as long as the value lives.
    fn turn(&self) -> Result<std::fs::File, Failure> {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let opened = std::fs::File::open(folder).and_then(|opened| opened.lock().map(|()| opened));
        opened.map_err(|error| Failure::outside(format!("cannot lock {}", folder.display()), error))
    }
}

impl Create {
    fn run(self) -> Result<(), Failure> {
        let role = self.grant.role()?;
        let _turn = self.file.turn()?;
        let mut tokens = self.file.read_or_new()?;
        let now = SystemTime::now();
        let created = tokens.create(&self.name.to_string(), &role, now, now + DAY * self.days);
        let Granted { token, text } = created.map_err(failed)?;
        // A token that the file does not have is of no use.
        self.file.write(&tokens)?;
        let Token { id, name, role, expires, .. } = token;
        let file = self.file.file.display();
        say(format_args!(
            "{file}: token {id} of {name} with role {role}, good until {expires}; it is shown only here"
        ));
        print(&(text + "\n"))
    }
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let tokens = self.file.read()?;
        let now = SystemTime::now();
        let state = |token: &Token| if token.is_expired(now) { "expired" } else { "valid" };
        if self.json {
            let line = |token: &Token| {
                let Token { id, name, role, created, expires, .. } = token;
                let object = json!({"id": id, "name": name, "role": role, "created": created, "expires": expires,
                    "state": state(token)});
                object.to_string() + "\n"
            };
            return print_as(true, &tokens.tokens().iter().map(line).collect::<String>());
        }
        let row = |token: &Token| {
            let Token { id, name, role, expires, .. } = token.clone();
            [name, role, expires, state(token).to_owned(), id]
        };
        print(&aligned(["NAME", "ROLE", "EXPIRES", "STATE", "ID"], tokens.tokens().iter().map(row)))
    }
}

impl Revoke {
    fn run(self) -> Result<(), Failure> {
        let _turn = self.file.turn()?;
        let mut tokens = self.file.read()?;
        let revoked = tokens.revoke(&self.name_or_id);
        let Some(first) = revoked.first() else {
            return Err(Failure::Rejected(format!(
                "{} has no token with this name or id; `weft token list` shows those that it has",
                self.file.file.display()
            )));
        };
        self.file.write(&tokens)?;
        say(match revoked.len() {
            1 => format!("{}: token {} revoked", first.name, first.id),
            count => format!("{}: {count} tokens revoked", first.name),
        });
        Ok(())
    }
}
