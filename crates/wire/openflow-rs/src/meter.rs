//! Meters: limits of rate that flows apply to packets.

use std::fmt;
use std::time::Duration;

use crate::DecodeError;
use crate::error::Fault;
use crate::flow::Seconds;
use crate::wire::{Reader, patch_len};

/// A meter, as it is added and described.
///
/// ```
/// use openflow_rs::MeterEntry;
/// let meter = MeterEntry::packets_per_second(7, 100, 10);
/// assert_eq!(meter.to_string(), "meter=7 pktps burst stats bands=\ntype=drop rate=100 burst_size=10");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterEntry {
    /// Its number, from 1 to [`MeterEntry::ID_MAX`], or a virtual one.
    pub id: u32,
    /// What its rates count.
    pub flags: MeterFlags,
    /// The bands. Of those whose rate is exceeded, that of the highest rate applies.
    pub bands: Vec<MeterBand>,
}

/// What a meter counts (`OFPMF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeterFlags(pub u16);

/// What happens to packets beyond a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeterBand {
    /// What happens.
    pub kind: BandKind,
    /// The rate, in the unit that the flags say.
    pub rate: u32,
    /// How much may come at once; 0 without [`MeterFlags::BURST`].
    pub burst: u32,
}

/// The kind of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// The packet is dropped.
    Drop,
    /// The drop precedence of the packet's DSCP rises by this much.
    DscpRemark(u8),
}

impl MeterEntry {
    /// `OFPM_MAX`. Open vSwitch takes fewer: as many as its datapath has.
    pub const ID_MAX: u32 = 0xffff_0000;
    /// `OFPM_SLOWPATH`: packets that the datapath hands to the switch.
    pub const SLOWPATH: u32 = 0xffff_fffd;
    /// `OFPM_CONTROLLER`: packets to the controller.
    pub const CONTROLLER: u32 = 0xffff_fffe;
    /// `OFPM_ALL`: all meters, in deletions and requests.
    pub const ALL: u32 = 0xffff_ffff;

    /// A meter that drops packets beyond `rate` a second, and counts them. `burst` packets may come at once.
    pub fn packets_per_second(id: u32, rate: u32, burst: u32) -> MeterEntry {
        let flags = MeterFlags(MeterFlags::PKTPS.0 | MeterFlags::BURST.0 | MeterFlags::STATS.0);
        MeterEntry { id, flags, bands: vec![MeterBand { kind: BandKind::Drop, rate, burst }] }
    }
}

impl MeterFlags {
    /// Rates are in kilobits a second.
    pub(crate) const KBPS: MeterFlags = MeterFlags(1);
    /// Rates are in packets a second.
    pub(crate) const PKTPS: MeterFlags = MeterFlags(2);
    /// Bands have a burst.
    pub const BURST: MeterFlags = MeterFlags(4);
    /// The meter counts.
    pub(crate) const STATS: MeterFlags = MeterFlags(8);

    const NAMES: [(MeterFlags, &'static str); 4] = [
        (MeterFlags::KBPS, "kbps"),
        (MeterFlags::PKTPS, "pktps"),
        (MeterFlags::BURST, "burst"),
        (MeterFlags::STATS, "stats"),
    ];

    /// Whether all of these flags are set.
    pub fn contains(self, flags: MeterFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// The command of a [`MeterMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeterCommand {
    /// Adds a new meter.
    Add,
    /// Replaces flags and bands of an existing meter.
    Modify,
    /// Deletes a meter, or all; Open vSwitch also deletes the flows that use it.
    Delete,
}

impl MeterCommand {
    const ALL: [MeterCommand; 3] = [MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete];

    fn name(self) -> &'static str {
        ["ADD", "MOD", "DEL"][self as usize]
    }
}

/// A change to a meter. Open vSwitch refuses it inside a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// The command.
    pub command: MeterCommand,
    /// The meter. Only its id counts in a deletion.
    pub meter: MeterEntry,
}

impl MeterMod {
    /// Adds a meter.
    pub fn add(meter: MeterEntry) -> MeterMod {
        MeterMod { command: MeterCommand::Add, meter }
    }

    /// Replaces a meter.
    pub fn modify(meter: MeterEntry) -> MeterMod {
        MeterMod { command: MeterCommand::Modify, meter }
    }

    /// Deletes a meter, or [`MeterEntry::ALL`].
    pub fn delete(id: u32) -> MeterMod {
        let meter = MeterEntry { id, flags: MeterFlags::default(), bands: Vec::new() };
        MeterMod { command: MeterCommand::Delete, meter }
    }

    /// Appends the body.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.command as u16).to_be_bytes());
        self.meter.encode_rest(out);
    }

    /// Reads the body.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<MeterMod, DecodeError> {
        let at = reader.clone();
        let number = reader.u16()?;
        let command = MeterCommand::ALL.get(usize::from(number)).copied();
        let command = command.ok_or_else(|| at.fault(Fault::Unknown(number.into())))?;
        Ok(MeterMod { command, meter: MeterEntry::decode_rest(reader)? })
    }
}

/// Bytes of a band.
const BAND_LEN: u16 = 16;
// `OFPMBT_*`.
const DROP: u16 = 1;
const DSCP_REMARK: u16 = 2;

impl MeterBand {
    fn encode(self, out: &mut Vec<u8>) {
        let (kind, level) = match self.kind {
            BandKind::Drop => (DROP, 0),
            BandKind::DscpRemark(level) => (DSCP_REMARK, level),
        };
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&BAND_LEN.to_be_bytes());
        out.extend_from_slice(&self.rate.to_be_bytes());
        out.extend_from_slice(&self.burst.to_be_bytes());
        out.extend_from_slice(&[level, 0, 0, 0]);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<MeterBand, DecodeError> {
        let at = reader.clone();
        let (kind, len) = (reader.u16()?, reader.u16()?);
        if len != BAND_LEN {
            return Err(at.fault(Fault::Length(len.into())));
        }
        let (rate, burst, level) = (reader.u32()?, reader.u32()?, reader.u8()?);
        reader.skip(3)?;
        let kind = match kind {
            DROP => BandKind::Drop,
            DSCP_REMARK => BandKind::DscpRemark(level),
            other => return Err(at.fault(Fault::Unknown(other.into()))),
        };
        Ok(MeterBand { kind, rate, burst })
    }
}

impl MeterEntry {
    /// Appends flags, id and bands: what changes and descriptions have in common.
    fn encode_rest(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.flags.0.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        for band in &self.bands {
            band.encode(out);
        }
    }

    fn decode_rest(reader: &mut Reader<'_>) -> Result<MeterEntry, DecodeError> {
        let (flags, id) = (MeterFlags(reader.u16()?), reader.u32()?);
        let mut bands = Vec::new();
        while !reader.is_empty() {
            bands.push(MeterBand::decode(reader)?);
        }
        Ok(MeterEntry { id, flags, bands })
    }

    /// Appends the meter in the format of a description.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        self.encode_rest(out);
        patch_len(out, start, start);
    }

    /// Reads one meter of a description.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<MeterEntry, DecodeError> {
        const FIXED: usize = 8;
        let at = reader.clone();
        let len = usize::from(reader.clone().u16()?);
        if len < FIXED {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("meter description", len)?;
        body.skip(2)?;
        MeterEntry::decode_rest(&mut body)
    }
}

/// The counters of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub id: u32,
    /// The number of flows that use it.
    pub flows: u32,
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The time since it was added.
    pub duration: Duration,
    /// For each band, the packets to which it applied, and their bytes.
    pub bands: Vec<(u64, u64)>,
}

impl MeterStats {
    /// Appends the counters with their length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.flows.to_be_bytes());
        out.extend_from_slice(&self.packets.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        let seconds = u32::try_from(self.duration.as_secs()).unwrap_or(u32::MAX);
        out.extend_from_slice(&seconds.to_be_bytes());
        out.extend_from_slice(&self.duration.subsec_nanos().to_be_bytes());
        for (packets, bytes) in &self.bands {
            out.extend_from_slice(&packets.to_be_bytes());
            out.extend_from_slice(&bytes.to_be_bytes());
        }
        patch_len(out, start, start + 4);
    }

    /// Reads the counters of one meter.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<MeterStats, DecodeError> {
        const NANOS_MAX: u32 = 999_999_999;
        const FIXED: usize = 40;
        let mut at = reader.clone();
        at.skip(4)?;
        let len = usize::from(at.clone().u16()?);
        if len < FIXED {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("meter statistics", len)?;
        let id = body.u32()?;
        body.skip(8)?;
        let flows = body.u32()?;
        let (packets, bytes) = (body.u64()?, body.u64()?);
        let duration = Duration::new(body.u32()?.into(), body.u32()?.min(NANOS_MAX));
        let mut bands = Vec::new();
        while !body.is_empty() {
            bands.push((body.u64()?, body.u64()?));
        }
        Ok(MeterStats { id, flows, packets, bytes, duration, bands })
    }
}

/// Writes a meter's number, or the name of a virtual one.
pub(crate) fn show_id(id: u32, separator: char) -> String {
    match id {
        MeterEntry::SLOWPATH => format!("meter{separator}slowpath"),
        MeterEntry::CONTROLLER => format!("meter{separator}controller"),
        MeterEntry::ALL => format!("meter{separator}all"),
        id => format!("meter{separator}{id}"),
    }
}

impl fmt::Display for MeterEntry {
    /// Writes the meter as `ovs-ofctl dump-meters` prints it, without the last line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", show_id(self.id, '='))?;
        let named = MeterFlags::NAMES.iter().filter(|(flag, _)| self.flags.contains(*flag));
        let mut rest = self.flags.0;
        for (flag, name) in named {
            write!(f, "{name} ")?;
            rest &= !flag.0;
        }
        if rest != 0 {
            write!(f, "flags:{rest:#x} ")?;
        }
        f.write_str("bands=")?;
        for MeterBand { kind, rate, burst } in &self.bands {
            let name = if *kind == BandKind::Drop { "drop" } else { "dscp_remark" };
            write!(f, "\ntype={name} rate={rate}")?;
            if self.flags.contains(MeterFlags::BURST) {
                write!(f, " burst_size={burst}")?;
            }
            if let BandKind::DscpRemark(level) = kind {
                write!(f, " prec_level={level}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for MeterMod {
    /// Writes the change as `ovs-ofctl` prints it, without the last line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.command.name(), self.meter)
    }
}

impl fmt::Display for MeterStats {
    /// Writes the counters as `ovs-ofctl meter-stats` prints them, without the last line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MeterStats { id, flows, packets, bytes, duration, bands } = self;
        write!(
            f,
            "{} flow_count:{flows} packet_in_count:{packets} byte_in_count:{bytes} duration:{} bands:",
            show_id(*id, ':'),
            Seconds(*duration),
        )?;
        for (number, (packets, bytes)) in bands.iter().enumerate() {
            write!(f, "\n{number}: packet_count:{packets} byte_count:{bytes}")?;
        }
        Ok(())
    }
}
