//! Packet fields: their table, and their form in a match.

mod table;
pub(crate) mod text;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::LazyLock;

use crate::MatchError;
use table::FIELDS;
pub use table::{Field, FieldInfo, Format, Header, Prerequisite};
pub use text::{number, prefix_mask};

/// Registers by number.
const REGS: [Field; 16] = [
    Field::Reg0,
    Field::Reg1,
    Field::Reg2,
    Field::Reg3,
    Field::Reg4,
    Field::Reg5,
    Field::Reg6,
    Field::Reg7,
    Field::Reg8,
    Field::Reg9,
    Field::Reg10,
    Field::Reg11,
    Field::Reg12,
    Field::Reg13,
    Field::Reg14,
    Field::Reg15,
];

const XREGS: [Field; 8] = [
    Field::Xreg0,
    Field::Xreg1,
    Field::Xreg2,
    Field::Xreg3,
    Field::Xreg4,
    Field::Xreg5,
    Field::Xreg6,
    Field::Xreg7,
];

/// Fields by class, experimenter and number.
static BY_HEADER: LazyLock<HashMap<(u16, u32, u8), Field>> = LazyLock::new(|| {
    let headers = |info: &'static FieldInfo| info.headers.iter().map(|header| (header, info.field));
    let fields = FIELDS.iter().flat_map(headers);
    fields.map(|(header, field)| ((header.class, header.experimenter, header.number), field)).collect()
});

/// The present bit of a VLAN tag, in `vlan_tci` and `vlan_vid`.
pub(crate) const VLAN_PRESENT: u128 = 0x1000;
/// The priority bits of `vlan_tci`.
pub(crate) const VLAN_PCP: u128 = 0xe000;

/// A part of a value in canonical storage: field, value, mask.
pub(crate) type Slot = (Field, u128, u128);

impl Field {
    /// Every field, in table order.
    pub fn all() -> impl Iterator<Item = Field> {
        FIELDS.iter().map(|info| info.field)
    }

    /// The field at this index of the table.
    pub(crate) fn numbered(number: u8) -> Option<Field> {
        FIELDS.get(usize::from(number)).map(|info| info.field)
    }

    /// The field's row in the table.
    pub fn info(self) -> &'static FieldInfo {
        &FIELDS[self as usize]
    }

    /// Open vSwitch's name, such as `eth_src`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether the field is part of a frame. The others are metadata, which a switch keeps beside it.
    pub fn is_of_frame(self) -> bool {
        self >= Field::VlanTci || matches!(self, Field::EthType | Field::IpProto)
    }

    /// Width in bits.
    pub fn bits(self) -> u16 {
        self.info().bits
    }

    /// Whether the field is a register or `metadata`: no part of a packet, and free to write.
    pub fn is_scratch(self) -> bool {
        self == Field::Metadata || (Field::Reg0..=Field::Xxreg3).contains(&self)
    }

    /// Bytes of a value on the wire.
    pub fn wire_bytes(self) -> usize {
        match usize::from(self.bits().div_ceil(8)) {
            3 => 4,
            n => n,
        }
        .max(if self == Field::TunFlags { 2 } else { 1 })
    }

    /// The field for an address of the other IP version: each field of IPv4 addresses has a counterpart
    /// for IPv6.
    pub fn for_address(self, ip: IpAddr) -> Field {
        match (self, ip) {
            (_, IpAddr::V4(_)) => self,
            (Field::IpSrc, _) => Field::Ipv6Src,
            (Field::IpDst, _) => Field::Ipv6Dst,
            (Field::TunSrc, _) => Field::TunIpv6Src,
            (Field::TunDst, _) => Field::TunIpv6Dst,
            (Field::CtNwSrc, _) => Field::CtIpv6Src,
            (Field::CtNwDst, _) => Field::CtIpv6Dst,
            _ => self,
        }
    }

    /// Whether the switch decides the length of the field: values may omit leading zeros, and a part is written as a
    /// part even if it covers all the bits that this crate knows.
    pub(crate) fn is_option(self) -> bool {
        self == Field::TunMetadata0
    }

    /// Register `n`, 0 to 15.
    pub fn reg(n: u8) -> Option<Field> {
        REGS.get(usize::from(n)).copied()
    }

    /// The double register `xregN`, N from 0 to 7.
    pub fn xreg(n: u8) -> Option<Field> {
        XREGS.get(usize::from(n)).copied()
    }

    /// The field with this name, alias, or wire name (`NXM_NX_REG0`).
    ///
    /// `tp_src`, `nw_src` and the like depend on the protocol and are only known to matches.
    pub fn from_name(name: &str) -> Option<Field> {
        let info = FIELDS.iter().find(|info| {
            info.name == name
                || info.aliases.contains(&name)
                || info.headers.iter().any(|header| header.name == name)
        });
        // In a match, these names stand for several fields; alone, each means the most common one.
        info.map(|info| info.field).or(match name {
            "dl_src" => Some(Field::EthSrc),
            "dl_dst" => Some(Field::EthDst),
            "dl_type" => Some(Field::EthType),
            "nw_src" => Some(Field::IpSrc),
            "nw_dst" => Some(Field::IpDst),
            "nw_frag" => Some(Field::IpFrag),
            _ => None,
        })
    }

    /// The field with this wire identity.
    pub(crate) fn from_header(class: u16, experimenter: u32, number: u8) -> Option<Field> {
        // Most fields on the wire are registers.
        if class == 1 && number < 16 {
            return Field::reg(number);
        }
        BY_HEADER.get(&(class, experimenter, number)).copied()
    }

    /// The largest value, which is also the mask of an exact match.
    pub fn max_value(self) -> u128 {
        match self {
            Field::VlanVid => VLAN_PRESENT | 0xfff,
            // Open vSwitch keeps eight bits of the opcode.
            Field::ArpOp => 0xff,
            Field::IpTos => 0xfc,
            Field::CtState => 0xff,
            _ => u128::MAX >> (128 - self.bits()),
        }
    }

    /// Checks a value and mask and splits them over the fields a match stores.
    pub(crate) fn slots(self, value: u128, mask: u128) -> Result<Slots, MatchError> {
        let max = self.max_value();
        let reserved_port = self == Field::InPort && (0xffff_ff00..=0xffff_ffff).contains(&value);
        for bits in [if reserved_port { 0 } else { value }, mask] {
            if bits & !max != 0 {
                return Err(MatchError::Range { field: self, value: bits, max });
            }
        }
        if mask == 0 {
            return Ok(Slots::default());
        }
        if mask != max && !self.info().maskable {
            return Err(MatchError::NotMaskable { field: self, mask });
        }
        let value = value & mask;
        match self {
            Field::InPort | Field::InPortOxm | Field::ActsetOutput => self.port_slot(value),
            Field::VlanVid => Ok(Slots::one(Field::VlanTci, value, mask)),
            Field::VlanPcp => {
                let (value, mask) = (value << 13 | VLAN_PRESENT, mask << 13 | VLAN_PRESENT);
                Ok(Slots::one(Field::VlanTci, value, mask))
            }
            Field::VlanTci if !matches!(mask & VLAN_PCP, 0 | VLAN_PCP) => {
                Err(MatchError::NotMaskable { field: Field::VlanPcp, mask: (mask & VLAN_PCP) >> 13 })
            }
            Field::IpTos => Ok(Slots::one(Field::IpDscp, value >> 2, mask >> 2)),
            Field::PacketType if value == 0 => Ok(Slots::default()),
            // A later fragment is always a fragment, so a packet that is no fragment is no later fragment either.
            Field::IpFrag => match (value, mask) {
                (2, 2) => Ok(Slots::one(self, 3, 3)),
                (0, 1) => Ok(Slots::one(self, 0, 3)),
                (2, 3) => Err(MatchError::Conflict { field: self, first: 2, second: 0 }),
                _ => Ok(Slots::one(self, value, mask)),
            },
            _ => Ok(match self.registers() {
                Some(registers) => Slots::registers(registers, value, mask),
                None => Slots::one(self, value, mask),
            }),
        }
    }

    /// Where these bits of the field are stored: other fields may contain the same bits.
    pub(crate) fn storage(self, mask: u128) -> Slots {
        match (self, self.registers()) {
            (_, Some(registers)) => Slots::registers(registers, 0, mask),
            (Field::InPortOxm, _) => Slots::one(Field::InPort, 0, mask),
            (Field::VlanVid, _) => Slots::one(Field::VlanTci, 0, mask),
            (Field::VlanPcp, _) => Slots::one(Field::VlanTci, 0, mask << 13),
            (Field::IpTos, _) => Slots::one(Field::IpDscp, 0, mask >> 2),
            _ => Slots::one(self, 0, mask),
        }
    }

    fn port_slot(self, value: u128) -> Result<Slots, MatchError> {
        let port = match self {
            Field::InPort | Field::ActsetOutput if value < 0x1_0000 => Some(crate::PortNo(value as u16)),
            _ => u32::try_from(value).ok().and_then(crate::PortNo::from_wire),
        };
        let port = port.filter(|port| port.is_known()).ok_or(MatchError::Range {
            field: self,
            value,
            max: u128::from(crate::PortNo::MAX - 1),
        })?;
        let field = if self == Field::ActsetOutput { self } else { Field::InPort };
        Ok(Slots::one(field, u128::from(port.0), field.max_value()))
    }

    /// The registers that an extended register is made of, highest part first.
    fn registers(self) -> Option<&'static [Field]> {
        let (first, width) = match self {
            Field::Xreg0 => (0, 2),
            Field::Xreg1 => (2, 2),
            Field::Xreg2 => (4, 2),
            Field::Xreg3 => (6, 2),
            Field::Xreg4 => (8, 2),
            Field::Xreg5 => (10, 2),
            Field::Xreg6 => (12, 2),
            Field::Xreg7 => (14, 2),
            Field::Xxreg0 => (0, 4),
            Field::Xxreg1 => (4, 4),
            Field::Xxreg2 => (8, 4),
            Field::Xxreg3 => (12, 4),
            _ => return None,
        };
        Some(&REGS[first..first + width])
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Up to four slots, without allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots([Option<Slot>; 4]);

impl Slots {
    fn one(field: Field, value: u128, mask: u128) -> Slots {
        Slots([Some((field, value, mask)), None, None, None])
    }

    fn registers(registers: &[Field], value: u128, mask: u128) -> Slots {
        let mut slots = Slots::default();
        for ((slot, field), part) in slots.0.iter_mut().zip(registers).zip((0..registers.len()).rev()) {
            let cut = |bits: u128| bits >> (32 * part) & 0xffff_ffff;
            *slot = (cut(mask) != 0).then_some((*field, cut(value), cut(mask)));
        }
        slots
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.0.iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_variants_say_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        let mut headers = std::collections::BTreeSet::new();
        for (place, info) in FIELDS.iter().enumerate() {
            assert_eq!(info.field as usize, place);
            assert_eq!(Field::from_name(info.name), Some(info.field));
            for name in info.aliases.iter().copied().chain([info.name]) {
                assert!(names.insert(name), "{name} twice");
            }
            for h in info.headers {
                assert!(headers.insert((h.class, h.experimenter, h.number)), "{} twice", h.name);
                assert_eq!(Field::from_header(h.class, h.experimenter, h.number), Some(info.field));
                assert_eq!(Field::from_name(h.name), Some(info.field));
            }
        }
    }

    #[test]
    fn extended_registers_are_stored_as_registers() {
        let slots: Vec<_> = Field::Xreg1.slots(0x5_0000_0006, u128::from(u64::MAX)).unwrap().iter().collect();
        assert_eq!(slots, [(Field::Reg2, 5, 0xffff_ffff), (Field::Reg3, 6, 0xffff_ffff)]);
        let slots: Vec<_> = Field::Xxreg0.slots(5, 0xf).unwrap().iter().collect();
        assert_eq!(slots, [(Field::Reg3, 5, 0xf)]);
    }

    #[test]
    fn a_zero_mask_demands_nothing() {
        for field in Field::all() {
            assert_eq!(field.slots(field.max_value(), 0).unwrap().iter().count(), 0, "{field}");
        }
    }

    #[test]
    fn a_value_wider_than_its_field_is_refused() {
        for field in Field::all().filter(|field| field.bits() < 128 && *field != Field::InPort) {
            let max = field.max_value();
            assert!(field.slots(max + 1, max).is_err(), "{field}");
        }
    }
}
