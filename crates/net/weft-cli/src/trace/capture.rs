//! The frames of a capture, as tcpdump writes one.

use std::fs::File;
use std::path::Path;

use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use crate::exit::Failure;

/// The size of the buffer, in bytes: more than the largest frame of a capture.
const BUFFER: usize = 1 << 18;

/// What one read has given.
enum Read {
    /// A block of this many bytes.
    Block(usize),
    /// Nothing whole: the file has more.
    Part,
}

/// The frames of a file in the format pcap or pcapng.
pub(super) fn frames(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let name = file.display();
    let opened = File::open(file).map_err(|error| Failure::outside(format!("cannot read {name}"), error))?;
    let bad = |why: String| Failure::Rejected(format!("{name} is no capture that can be read: {why}"));
    let mut reader = create_reader(BUFFER, opened).map_err(|error| bad(error.to_string()))?;
    let mut frames = Vec::new();
    loop {
        let read = match reader.next() {
            Ok((used, block)) => {
                frames.extend(frame(&block, frames.len() + 1).map_err(bad)?);
                Read::Block(used)
            }
            Err(PcapError::Eof) => return Ok(frames),
            Err(PcapError::Incomplete(_)) => Read::Part,
            Err(PcapError::UnexpectedEof) => return Err(bad(cut_within(frames.len() + 1))),
            Err(error) => return Err(bad(error.to_string())),
        };
        match read {
            Read::Block(used) => reader.consume(used),
            Read::Part if reader.reader_exhausted() => {
                return Err(bad(cut_within(frames.len() + 1)));
            }
            Read::Part => reader.refill().map_err(|error| bad(error.to_string()))?,
        }
    }
}

fn cut_within(number: usize) -> String {
    format!("it ends within frame {number}")
}

/// The frame of a block, if it has one. `number` is that of the next frame.
fn frame(block: &PcapBlockOwned<'_>, number: usize) -> Result<Option<Vec<u8>>, String> {
    let ethernet = |kind: Linktype| match kind {
        Linktype::ETHERNET => Ok(None),
        other => Err(format!(
            "its frames are of link type {}, not of Ethernet: capture on another interface",
            other.0
        )),
    };
    let whole = |data: &[u8], length: u32, captured: u32| {
        let frame = usize::try_from(captured).ok().and_then(|captured| data.get(..captured));
        match frame {
            Some(frame) if captured == length => Ok(Some(frame.to_vec())),
            _ => Err(format!("frame {number} is cut short: capture whole frames (tcpdump -s 0)")),
        }
    };
    match block {
        PcapBlockOwned::LegacyHeader(header) => ethernet(header.network),
        PcapBlockOwned::Legacy(block) => whole(block.data, block.origlen, block.caplen),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => ethernet(interface.linktype),
        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => whole(block.data, block.origlen, block.caplen),
        PcapBlockOwned::NG(Block::SimplePacket(block)) => whole(block.data, block.origlen, block.origlen),
        PcapBlockOwned::NG(_) => Ok(None),
    }
}
