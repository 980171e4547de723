//! `weft manual FOLDER`: the man pages of all commands and of the configuration file, for packages. `--help` does not show it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use controller::config::{KEYS, Key, VARIABLE};

use crate::exit::Failure;

/// Arguments of `weft manual`.
#[derive(Args)]
pub(crate) struct Manual {
    /// The folder, which gets `man1` and `man5`
    folder: PathBuf,
}

impl Manual {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        write(&self.folder).map_err(|error| {
            Failure::outside(format!("cannot write man pages to {}", self.folder.display()), error)
        })
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let (commands, files) = (folder.join("man1"), folder.join("man5"));
    fs::create_dir_all(&commands)?;
    fs::create_dir_all(&files)?;
    // Without the command `help`, whose pages would repeat all others.
    let mut root = crate::Arguments::command().disable_help_subcommand(true);
    root.build();
    command(&root, &commands)?;
    let mut page = Vec::new();
    configuration().to_writer(&mut page)?;
    fs::write(files.join("weft.toml.5"), page)
}

/// Writes the page of a command, and those of the commands below it.
fn command(command: &Command, folder: &Path) -> io::Result<()> {
    let man = Man::new(command.clone()).manual("Weft");
    let mut page = Vec::new();
    man.render(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| self::command(below, folder))
}

/// The page of the configuration file.
fn configuration() -> Roff {
    let mut page = Roff::new();
    page.control("TH", ["weft.toml", "5", "", "", "Weft"]);
    page.control("SH", ["NAME"]).text([roman("weft.toml - the configuration of the Weft controller")]);
    page.control("SH", ["SYNOPSIS"]).text([roman("/etc/weft/weft.toml")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("A file in TOML, which "),
        bold("weft controller --config"),
        roman(" reads at its start and on SIGHUP. Each key has a default, and an unknown key is an error. The environment variable "),
        bold(format!("{VARIABLE}KEY")),
        roman(", with the key in upper case, takes precedence over the file."),
    ]);
    page.control("SH", ["KEYS"]);
    for key in KEYS {
        describe(key, &mut page);
    }
    page.control("SH", ["SEE ALSO"]).text([bold("weft-controller"), roman("(1)")]);
    page
}

fn describe(key: &Key, page: &mut Roff) {
    let mut facts = format!("Values: {}.", key.values);
    if let Some(default) = key.default {
        facts += &format!(" Default: `{default}`.");
    }
    if key.reloads {
        facts += " SIGHUP applies it.";
    }
    let meaning: Vec<&str> = key.meaning.iter().map(|line| line.trim()).collect();
    page.control("TP", []).text([bold(key.name)]);
    page.text(inline(&meaning.join(" ")));
    page.control("IP", []).text(inline(&facts));
}

/// A line of Markdown: what stands between backticks is bold.
fn inline(markdown: &str) -> Vec<Inline> {
    let parts = markdown.split('`').enumerate();
    parts.map(|(number, text)| if number % 2 == 1 { bold(text) } else { roman(text) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_and_each_key_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let mut root = crate::Arguments::command();
        root.build();
        let mut pages = 0;
        let mut commands = vec![(root, "weft".to_owned())];
        while let Some((command, name)) = commands.pop() {
            let page = fs::read_to_string(folder.path().join(format!("man1/{name}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                if let Some(long) = option.get_long() {
                    assert!(page.contains(&long.replace('-', "\\-")), "{name} --{long}: {page}");
                }
            }
            pages += 1;
            let below =
                command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
            commands.extend(below.map(|below| (below.clone(), format!("{name}-{}", below.get_name()))));
        }
        assert!(pages > 40, "{pages}");
        assert_eq!(fs::read_dir(folder.path().join("man1")).unwrap().count(), pages);
        let page = fs::read_to_string(folder.path().join("man5/weft.toml.5")).unwrap();
        assert_eq!(page.matches(".TP").count(), KEYS.len());
        assert!(page.contains("\\fBsocket_mode\\fR"), "{page}");
    }
}
