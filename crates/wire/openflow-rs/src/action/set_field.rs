//! `set_field:VALUE[/MASK]->FIELD`: writes bits of a field. OpenFlow 1.5 has no `load`; that and the
//! older `mod_*` spellings become this.

use super::*;
use crate::field::text::number;
use crate::field::{Field, VLAN_PRESENT};
use crate::literal::placed;
use crate::{MatchError, PortNo, oxm};

/// Writes `value` to the bits of `mask` in `field`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetField {
    field: Field,
    value: u128,
    mask: u128,
}

impl SetField {
    /// Writes `value` to the bits of `mask` in `field`.
    ///
    /// # Errors
    /// The field is read-only, the value or mask does not fit it, or the value has bits outside
    /// the mask (a switch answers `OFPBMC_BAD_WILDCARDS`).
    pub fn new(field: Field, value: u128, mask: u128) -> Result<SetField, MatchError> {
        let max = field.max_value();
        if !field.info().writable || field == Field::InPortOxm {
            return Err(MatchError::ReadOnly { field });
        }
        if let Some(&value) = [value, mask].iter().find(|bits| **bits & !max != 0) {
            return Err(MatchError::Range { field, value, max });
        }
        if value & !mask != 0 || mask == 0 {
            return Err(MatchError::OutsideMask { field, value, mask });
        }
        if field == Field::VlanVid && value & mask & VLAN_PRESENT == 0 {
            return Err(MatchError::VlanNotPresent { value, mask });
        }
        if field == Field::InPort && !PortNo(value as u16).is_known() {
            return Err(MatchError::Range { field, value, max: u128::from(PortNo::MAX - 1) });
        }
        if mask != max && !field.info().maskable {
            return Err(MatchError::NotMaskable { field, mask });
        }
        Ok(SetField { field, value, mask })
    }

    /// The field written to.
    pub fn field(self) -> Field {
        self.field
    }

    /// The bits written.
    pub fn value(self) -> u128 {
        self.value
    }

    /// The mask of the bits written.
    pub fn mask(self) -> u128 {
        self.mask
    }
}

impl Body for SetField {
    const NAMES: &'static [&'static str] = &[
        "set_field",
        "load",
        "set_tunnel",
        "set_tunnel64",
        "mod_dl_src",
        "mod_dl_dst",
        "mod_nw_src",
        "mod_nw_dst",
        "mod_nw_tos",
    ];
    const WIRE: &'static [Wire] = &[Wire::Of(25)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "set",
        "Writes a field or some of its bits.",
        &[
            Parameter::written("field", "The destination."),
            Parameter::value_of("value", "field", "The value; a mask must cover it."),
        ],
        &[
            ("set(reg15, 5)", "set_field:0x5->reg15"),
            ("set(reg0, 0x10/0x10)", "set_field:0x10/0x10->reg0"),
            ("set(reg5[16..31], 7)", "set_field:0x70000/0xffff0000->reg5"),
            (r#"set(eth_src, mac"02:00:00:00:00:01")"#, "set_field:02:00:00:00:00:01->eth_src"),
            (r#"set(tun_dst, ip"172.31.0.2")"#, "set_field:172.31.0.2->tun_dst"),
            (r#"set(tun_dst, ip"fd00::2")"#, "set_field:fd00::2->tun_ipv6_dst"),
            (r#"set(reg0, ip"10.0.0.1")"#, "set_field:0xa000001->reg0"),
        ],
        |given| {
            let (to, value, mask) = given.assignment("value")?;
            let (field, value, mask) = placed(to, value, mask);
            Ok(SetField::new(field, value, mask)?.into())
        },
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet, Context::Exec])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let (field, value, mask) = oxm::get(body)?;
        SetField::new(field, value, mask).map_err(|error| at.fault(error))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(25).put(out, |out| oxm::put(out, self.field, self.value, self.mask));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("set_field:")?;
        self.field.write_set(f, self.value, self.mask)?;
        write!(f, "->{}", self.field)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let to = |field: Field| {
            let (value, mask) = field.read(call.arg)?;
            Ok(SetField::new(field, value, mask)?.into())
        };
        let arrow = || ParseError::value(call.text, "assignment VALUE->FIELD");
        match call.name {
            "set_field" => {
                let (text, name) = call.arg.split_once("->").ok_or_else(arrow)?;
                let unknown = || ParseError::UnknownField { name: name.to_owned() };
                let field = Field::from_name(name).ok_or_else(unknown)?;
                let (value, mask) = field.read(text)?;
                Ok(SetField::new(field, value, mask)?.into())
            }
            "load" => {
                let (text, destination) = call.arg.split_once("->").ok_or_else(arrow)?;
                let destination: Subfield = destination.parse()?;
                Action::load(destination, number(text)?).map_err(ParseError::from)
            }
            "mod_dl_src" => to(Field::EthSrc),
            "mod_dl_dst" => to(Field::EthDst),
            "mod_nw_src" => to(Field::IpSrc),
            "mod_nw_dst" => to(Field::IpDst),
            "mod_nw_tos" => {
                let (tos, _) = Field::IpTos.read(call.arg)?;
                if tos & !Field::IpTos.max_value() != 0 {
                    return Err(ParseError::value(call.arg, "TOS byte with the lower two bits zero"));
                }
                Ok(SetField::new(Field::IpDscp, tos >> 2, Field::IpDscp.max_value())?.into())
            }
            _ => to(Field::TunId),
        }
    }
}

impl Action {
    /// Writes the whole field.
    ///
    /// # Errors
    /// As [`SetField::new`].
    pub fn set_field(field: Field, value: u128) -> Result<Action, MatchError> {
        Ok(SetField::new(field, value, field.max_value())?.into())
    }

    /// Writes the bits of `mask` in the field.
    ///
    /// # Errors
    /// As [`SetField::new`].
    pub fn set_field_masked(field: Field, value: u128, mask: u128) -> Result<Action, MatchError> {
        Ok(SetField::new(field, value, mask)?.into())
    }

    /// Writes `value` to some bits of a field, counted from the lowest of them.
    ///
    /// # Errors
    /// As [`SetField::new`]; also when the value has more bits than the subfield.
    pub fn load(destination: Subfield, value: u128) -> Result<Action, MatchError> {
        let field = destination.field();
        let max = u128::MAX >> (128 - destination.bits());
        if value > max {
            return Err(MatchError::Range { field, value, max });
        }
        let whole = destination == Subfield::whole(field);
        let mask = if whole { field.max_value() } else { destination.mask() };
        Ok(SetField::new(field, value << destination.start(), mask)?.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("set_field:0x5->reg0", "0019 0010 00010004 00000005 00000000"),
        ("set_field:0x500/0xff00->reg0", "0019 0010 00010108 00000500 0000ff00"),
        ("set_field:0x102->tun_id", "0019 0010 80004c08 0000000000000102"),
        ("set_field:172.31.0.2->tun_dst", "0019 0010 00014004 ac1f0002 00000000"),
        ("set_field:0/0xf0->metadata", "0019 0018 80000510 0000000000000000 00000000000000f0"),
        ("set_field:00:00:00:00:00:01->eth_dst", "0019 0010 80000606 000000000001 0000"),
        ("set_field:LOCAL->in_port", "0019 0010 00000002 fffe 000000000000"),
        ("set_field:4103->vlan_vid", "0019 0010 80000c02 1007 000000000000"),
        ("set_field:2->arp_op", "0019 0010 80002a02 0002 000000000000"),
        ("set_field:0x500000006->xreg0", "0019 0010 80010008 0000000500000006"),
        (
            "set_field:0x60000000/0xf0000000->xxreg0",
            "0019 0028 0001df20 00000000 00000000 00000000 60000000 00000000 00000000 00000000 f0000000",
        ),
        ("set_field:0x5->tun_metadata0", "0019 0010 00015004 00000005 00000000"),
        ("set_field:0x5/0xff->tun_metadata0", "0019 0010 00015108 00000005 000000ff"),
        ("set_field:7->nd_reserved", "0019 0010 10000204 00000007 00000000"),
    ]);
    testing::check_spellings([
        ("load:0x5->NXM_NX_REG0[0..15]", "set_field:0x5/0xffff->reg0"),
        ("load:0x5->NXM_NX_REG0[8..15]", "set_field:0x500/0xff00->reg0"),
        ("load:5->reg0[]", "set_field:0x5->reg0"),
        ("set_tunnel:5", "set_field:0x5->tun_id"),
        ("mod_dl_src:0:0:0:0:0:a", "set_field:00:00:00:00:00:0a->eth_src"),
        ("mod_nw_tos:4", "set_field:1->ip_dscp"),
        ("set_field:10.0.0.0/8->ip_src", "set_field:10.0.0.0/8->ip_src"),
    ]);
    testing::check_refused([
        "set_field:5/3->reg0",
        "set_field:0/0->reg0",
        "set_field:5->reg0[0..3]",
        "set_field:5",
        "set_field:->reg0",
        "load:4->reg0[0..1]",
        "set_field:5->eth_type",
        "set_field:7->vlan_vid",
        "mod_nw_tos:3",
        "set_field:0x100000000->reg0",
    ]);
    testing::check_malformed([
        "0019 0010 00010004 00000005 00000001",
        "0019 0010 00010108 00000005 00000003",
        "0019 0010 80000a02 0800 000000000000",
        "0019 0018 00015005 0000000005 00000000000000",
        "0019 0010 00015102 0000 00000000",
    ]);
}
