//! What a switch says of itself once its flows are in.

use crate::userdata::{Malformed, Reader, countable};

/// Bits of the format.
const ALL: u8 = 0x01;

/// The switch forwards for others by these flows. Until it does, and while the way out is down, the responder keeps others from choosing it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The tunnel ports by which others choose this switch.
    pub hold: Tunnels,
    /// Interfaces that lead to physical networks, or bridges with such interfaces.
    pub uplinks: Vec<String>,
}

/// Some of the tunnel ports of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tunnels {
    /// All that have a BFD session.
    All,
    /// Those of these interfaces, as far as they have one.
    These(Vec<String>),
}

impl Default for Tunnels {
    fn default() -> Tunnels {
        Tunnels::These(Vec::new())
    }
}

/// Whether an instruction can have a text as the name of an interface. The names are joined by commas where they are remembered.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=usize::from(u8::MAX)).contains(&name.len()) && !name.contains(',')
}

impl Readiness {
    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (flags, tunnels) = match &self.hold {
            Tunnels::All => (ALL, &[][..]),
            Tunnels::These(names) => (0, countable(names)),
        };
        let uplinks = countable(&self.uplinks);
        out.extend_from_slice(&[flags, tunnels.len() as u8, uplinks.len() as u8]);
        for name in tunnels.iter().chain(uplinks) {
            let name = countable(name.as_bytes());
            out.push(name.len() as u8);
            out.extend_from_slice(name);
        }
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Readiness, Malformed> {
        let [flags, tunnels, uplinks] = reader.take()?;
        if flags & !ALL != 0 || (flags == ALL && tunnels != 0) {
            return Err(Malformed::Flags(flags));
        }
        let tunnels = reader.list(tunnels, name)?;
        let hold = if flags == ALL { Tunnels::All } else { Tunnels::These(tunnels) };
        Ok(Readiness { hold, uplinks: reader.list(uplinks, name)? })
    }
}

fn name(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let length = reader.u8()?;
    let name = str::from_utf8(reader.bytes(length.into())?).map_err(|_| Malformed::Interface)?;
    if is_name(name) { Ok(name.to_owned()) } else { Err(Malformed::Interface) }
}
