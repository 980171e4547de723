//! `weft support-bundle`: what somebody who helps needs to know of a running controller, as one file.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use nlog_data::quotation::grouped;
use weft_core::times::to_the_second;

use crate::client::Address;
use crate::exit::{Failure, say};
use crate::replacement::Replacement;
use crate::snapshot::Names;

mod archive;
mod collected;
mod parts;
mod renamed;

use collected::Collected;
use parts::Wanted;

/// Arguments of `weft support-bundle`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft support-bundle                          a file in this folder\n  \
        weft support-bundle --switch hv1             with the flows and tunnels of a switch\n  \
        weft support-bundle --anonymise -o net.tar.zst   for somebody who must not see names\n  \
        tar --zstd -xf net.tar.zst                   unpack it; README says what each file is\n\n\
        In it: versions, the configuration, status, problems, metrics, the last lines of the log, the\n\
        last changes, and a snapshot to replay. No keys, no tokens. A part that the controller does not\n\
        give is named on standard error and in README, the others are written all the same, and the\n\
        exit status is 3. The configuration and the log need the role operator, the rest viewer.\n\n\
        With --anonymise, names and addresses are replaced as `weft snapshot take --anonymise` does, by\n\
        the same ones in all parts; a part or a text in which they cannot be found for sure, such as\n\
        the log, is left out. The text of your own rules stays: read it before you send it.")]
pub(crate) struct SupportBundle {
    /// The file to write [default: weft-support-TIME.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add the flows and tunnels of this transport node; repeat for several
    #[arg(long = "switch", value_name = "NODE", conflicts_with = "switches")]
    switch: Vec<String>,
    /// Add those of all transport nodes
    #[arg(long)]
    switches: bool,
    /// Replace names and addresses, so that others can have the file
    #[arg(long)]
    anonymise: bool,
    /// Write what was replaced by what to this file, for yourself
    #[arg(long, value_name = "FILE", requires = "anonymise")]
    names: Option<PathBuf>,
    #[command(flatten)]
    address: Address,
}

impl SupportBundle {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let SupportBundle { output, switch, switches, anonymise, names, address } = self;
        // `:` is no character of file names everywhere.
        let name = format!("weft-support-{}", to_the_second(SystemTime::now()).replace(':', ""));
        let file = output.unwrap_or_else(|| format!("{name}.tar.zst").into());
        let cannot = |error| Failure::outside(format!("cannot write {}", file.display()), error);
        // First, so that nobody waits in vain.
        let replacement = begin(&file).map_err(cannot)?;
        let names = names.map(Names::begin).transpose()?;
        let wanted = Wanted { switches: switch, all_switches: switches, anonymise };
        let found = match address.with(|client| async { Ok(parts::collect(client, &wanted).await) }) {
            Ok(found) => found,
            Err(failure @ Failure::Usage(_)) => return Err(failure),
            Err(failure) => parts::without_controller(&failure.text()),
        };
        let mut collected = Collected::new(anonymise);
        let mapping = found.into_parts(&mut collected, &wanted);
        if let (Some(names), Some(mapping)) = (names, mapping) {
            names.write(&mapping)?;
        }
        archive::write(replacement.file(), &name, &collected).map_err(cannot)?;
        let bytes = replacement.file().metadata().map_err(cannot)?.len();
        replacement.finish().map_err(cannot)?;
        say(format_args!(
            "{}: {} bytes",
            file.display(),
            grouped(usize::try_from(bytes).unwrap_or(usize::MAX))
        ));
        let missing: Vec<&str> = collected.missing().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Failure::Outside(format!(
            "the bundle lacks {}; the warnings above say why. Its other parts can be used",
            missing.join(", ")
        )))
    }
}

/// Begins a file that its owner alone can read, also if there is one that others can read.
fn begin(path: &Path) -> io::Result<Replacement> {
    let replacement = Replacement::of(path)?;
    replacement.file().set_permissions(Permissions::from_mode(0o600))?;
    Ok(replacement)
}
