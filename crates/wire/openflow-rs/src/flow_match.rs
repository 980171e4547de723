//! Matches of flow entries.

mod text;
mod wire;

use crate::MatchError;
use crate::field::{Field, Prerequisite, VLAN_PCP, VLAN_PRESENT};
use crate::protocol::{
    ETH_TYPE_ARP, ETH_TYPE_IP, ETH_TYPE_IPV6, ETH_TYPE_MPLS, ETH_TYPE_MPLS_MCAST, ETH_TYPE_RARP, KEYWORDS,
    PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP,
};

pub(crate) use text::{SHARED_NAMES, items};

const ND_SOLICIT: u128 = 135;
const ND_ADVERT: u128 = 136;

/// One part of a match: the bits of `mask` in `field` equal those of `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    /// The field, never one that overlaps another (no `xreg`, `vlan_vid`, `nw_tos`).
    pub field: Field,
    /// Zero wherever the mask is.
    pub value: u128,
    /// Never zero.
    pub mask: u128,
}

/// The match of a flow entry: a packet must satisfy all of its parts.
///
/// A match is canonical: two matches that a switch stores alike are equal, whatever spelling made
/// them. Extended registers are kept as registers, `vlan_vid` and `vlan_pcp` as `vlan_tci`.
/// Parts may be added in any order; [`Match::validate`] checks at the end that every field's
/// prerequisites are present, as a switch requires.
///
/// ```
/// use openflow_rs::{Field, Match};
/// let m = Match::any().with(Field::Metadata, 7)?.with(Field::Reg1, 0x1a)?;
/// assert_eq!(m.to_string(), "reg1=0x1a,metadata=0x7");
/// assert_eq!("metadata=7,xreg0=0x1a/0xffffffff".parse(), Ok(m));
/// # Ok::<(), openflow_rs::MatchError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Sorted by field, one for each.
    demands: Vec<Demand>,
}

impl Match {
    /// The match of all packets.
    pub fn any() -> Match {
        Match::default()
    }

    /// This match and `field` = `value`.
    ///
    /// # Errors
    /// The value does not fit the field, or contradicts another part of the match.
    pub fn with(self, field: Field, value: u128) -> Result<Match, MatchError> {
        self.with_masked(field, value, field.max_value())
    }

    /// This match and `field` & `mask` = `value` & `mask`. A zero mask has no effect.
    ///
    /// # Errors
    /// As [`Match::with`]; also when the field takes no mask.
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Result<Match, MatchError> {
        for (field, value, mask) in field.slots(value, mask)?.iter() {
            self.demand(Demand { field, value, mask })?;
        }
        Ok(self)
    }

    /// Builds a match from its parts, which are in order.
    pub(crate) fn of(demands: Vec<Demand>) -> Match {
        Match { demands }
    }

    /// A copy with room for this many further parts.
    pub(crate) fn with_room(&self, more: usize) -> Match {
        let mut demands = Vec::with_capacity(self.demands.len() + more);
        demands.extend_from_slice(&self.demands);
        Match { demands }
    }

    /// The match of packets that both match.
    ///
    /// # Errors
    /// [`MatchError::Conflict`] when no packet can match both.
    pub fn and(&self, other: &Match) -> Result<Match, MatchError> {
        let mut both = self.clone();
        for demand in &other.demands {
            both.demand(*demand)?;
        }
        Ok(both)
    }

    /// The parts, in the order in which Open vSwitch prints fields.
    pub fn iter(&self) -> impl Iterator<Item = Demand> + '_ {
        self.demands.iter().copied()
    }

    /// The value and mask of a canonical field.
    pub fn get(&self, field: Field) -> Option<(u128, u128)> {
        let place = self.demands.binary_search_by_key(&field, |demand| demand.field).ok()?;
        let Demand { value, mask, .. } = self.demands[place];
        Some((value, mask))
    }

    /// Whether every packet that matches `narrow` matches this, compared demand by demand.
    pub fn covers(&self, narrow: &Match) -> bool {
        self.iter().all(|demand| {
            narrow.get(demand.field).is_some_and(|(value, mask)| {
                mask & demand.mask == demand.mask && value & demand.mask == demand.value
            })
        })
    }

    /// Checks that each field's prerequisites are matched too.
    ///
    /// # Errors
    /// [`MatchError::Prerequisite`] for the first field without its prerequisites; a switch would answer
    /// `OFPBMC_BAD_PREREQ`.
    pub fn validate(&self) -> Result<(), MatchError> {
        for Demand { field, mask, .. } in self.iter() {
            let needs = match field {
                Field::VlanTci if mask & VLAN_PCP != 0 => Prerequisite::Vlan,
                _ => field.info().prerequisite,
            };
            if !self.meets(needs) {
                return Err(MatchError::Prerequisite { field, needs });
            }
        }
        Ok(())
    }

    /// Whether the match makes `needs` certain.
    pub fn meets(&self, needs: Prerequisite) -> bool {
        let eth = |kind| self.exactly(Field::EthType) == Some(kind);
        let ip = eth(ETH_TYPE_IP) || eth(ETH_TYPE_IPV6);
        let proto = |kind| self.exactly(Field::IpProto) == Some(kind);
        let nd = |kind| {
            eth(ETH_TYPE_IPV6)
                && proto(PROTO_ICMPV6)
                && self.exactly(Field::Icmpv6Type) == Some(kind)
                // Here the switch treats an unmatched code as 0.
                && self.exactly(Field::Icmpv6Code).is_none_or(|code| code == 0)
        };
        // New, established, related, reply, or translated; or tracked and not invalid.
        let valid = |(value, mask): (u128, u128)| {
            value & 0xcf != 0 || (value & 0x20 != 0 && mask & !value & 0x10 != 0)
        };
        let connection = || self.get(Field::CtState).is_some_and(valid);
        // Only the first fragment has ports.
        let later_fragment = self.get(Field::IpFrag).is_some_and(|(value, _)| value & 2 != 0);
        match needs {
            Prerequisite::None => true,
            Prerequisite::Vlan => {
                self.get(Field::VlanTci).is_some_and(|(value, mask)| value & mask & VLAN_PRESENT != 0)
            }
            Prerequisite::Ipv4 => eth(ETH_TYPE_IP),
            Prerequisite::Ipv6 => eth(ETH_TYPE_IPV6),
            Prerequisite::Ip => ip,
            Prerequisite::Arp => eth(ETH_TYPE_ARP) || eth(ETH_TYPE_RARP),
            Prerequisite::Mpls => eth(ETH_TYPE_MPLS) || eth(ETH_TYPE_MPLS_MCAST),
            Prerequisite::Tcp => ip && proto(PROTO_TCP) && !later_fragment,
            Prerequisite::Udp => ip && proto(PROTO_UDP) && !later_fragment,
            Prerequisite::Sctp => ip && proto(PROTO_SCTP) && !later_fragment,
            Prerequisite::Icmp => eth(ETH_TYPE_IP) && proto(PROTO_ICMP),
            Prerequisite::Icmp6 => eth(ETH_TYPE_IPV6) && proto(PROTO_ICMPV6),
            Prerequisite::Nd => nd(ND_SOLICIT) || nd(ND_ADVERT),
            Prerequisite::NdSolicit => nd(ND_SOLICIT),
            Prerequisite::NdAdvert => nd(ND_ADVERT),
            Prerequisite::Ct => connection(),
            Prerequisite::CtAddress => ip && connection(),
        }
    }

    /// The field's value if all of its bits are matched.
    pub(crate) fn exactly(&self, field: Field) -> Option<u128> {
        self.get(field).filter(|(_, mask)| field.is_exact(*mask)).map(|(value, _)| value)
    }

    fn demand(&mut self, new: Demand) -> Result<(), MatchError> {
        match self.demands.binary_search_by_key(&new.field, |demand| demand.field) {
            Ok(place) => self.demands[place] = self.demands[place].and(new)?,
            Err(place) => self.demands.insert(place, new.canonical()),
        }
        Ok(())
    }
}

impl Demand {
    /// The demand for what two demands on one field ask for.
    pub(crate) fn and(self, new: Demand) -> Result<Demand, MatchError> {
        let Demand { field, value, mask } = self;
        if (value ^ new.value) & mask & new.mask != 0 {
            return Err(MatchError::Conflict { field, first: value, second: new.value });
        }
        Ok(Demand { field, value: value | new.value, mask: mask | new.mask }.canonical())
    }

    /// A packet without a tag has no priority, and no field of the wire says one: `vlan_pcp` demands a tag.
    pub(crate) fn canonical(mut self) -> Demand {
        let untagged =
            self.field == Field::VlanTci && self.mask & VLAN_PRESENT != 0 && self.value & VLAN_PRESENT == 0;
        if untagged {
            self.mask &= !VLAN_PCP;
            self.value &= !VLAN_PCP;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_for_one_field_conflict_also_through_an_overlapping_field() {
        let m = Match::any().with(Field::Reg1, 6).unwrap();
        let expected = MatchError::Conflict { field: Field::Reg1, first: 6, second: 7 };
        assert_eq!(m.clone().with(Field::Reg1, 7), Err(expected.clone()));
        assert_eq!(m.clone().with(Field::Xreg0, 7), Err(expected));
        assert_eq!(m.clone().with(Field::Reg1, 6), Ok(m));
    }

    #[test]
    fn masks_that_do_not_meet_are_joined() {
        let low = Match::any().with_masked(Field::Metadata, 5, 0xff).unwrap();
        let high = Match::any().with_masked(Field::Metadata, 0x100, 0xff00).unwrap();
        assert_eq!(low.and(&high).unwrap().get(Field::Metadata), Some((0x105, 0xffff)));
        assert_eq!(low.and(&high), high.and(&low));
    }

    #[test]
    fn a_match_without_a_vlan_tag_has_no_priority_and_passes_the_wire() {
        for value in [0, 0x0a20, 0xe000, 0xea20] {
            let m = Match::any().with_masked(Field::VlanTci, value, 0xffff).unwrap();
            assert_eq!(m.get(Field::VlanTci), Some((value & 0x0fff, 0x1fff)));
            let mut bytes = Vec::new();
            m.encode(&mut bytes);
            assert_eq!(
                Match::decode(&mut crate::wire::Reader::new("match", &bytes)).unwrap(),
                m,
                "{value:#x}"
            );
        }
    }

    #[test]
    fn a_vlan_priority_without_a_demand_for_a_tag_passes_the_wire() {
        for (value, mask) in [(0x0a20, 0xefff), (0x2000, 0xe000), (0, 0xe00f)] {
            let m = Match::any().with_masked(Field::VlanTci, value, mask).unwrap();
            let mut bytes = Vec::new();
            m.encode(&mut bytes);
            let again = Match::decode(&mut crate::wire::Reader::new("match", &bytes)).unwrap();
            assert_eq!(again.get(Field::VlanTci), Some((value, mask)));
        }
    }

    #[test]
    fn a_field_without_its_prerequisite_is_found_in_any_order() {
        let m = Match::any().with(Field::TcpDst, 80).unwrap();
        assert_eq!(
            m.validate(),
            Err(MatchError::Prerequisite { field: Field::TcpDst, needs: Prerequisite::Tcp })
        );
        let m = m.with(Field::IpProto, 6).unwrap().with(Field::EthType, 0x800).unwrap();
        assert_eq!(m.validate(), Ok(()));
    }

    #[test]
    fn a_value_too_large_or_a_mask_too_many_is_refused() {
        assert_eq!(
            Match::any().with(Field::Reg0, 1 << 32),
            Err(MatchError::Range { field: Field::Reg0, value: 1 << 32, max: 0xffff_ffff })
        );
        // Ports have 16 bits, except the reserved ones, which OpenFlow writes in 32.
        assert!(Match::any().with(Field::InPort, 0xffff_fffe).is_ok());
        for value in [1 << 16, 1 << 32, 0x1_ffff_fffe] {
            let range = MatchError::Range { field: Field::InPort, value, max: 0xffff };
            assert_eq!(Match::any().with(Field::InPort, value), Err(range));
        }
        assert_eq!(
            Match::any().with_masked(Field::EthType, 0x800, 0xff00),
            Err(MatchError::NotMaskable { field: Field::EthType, mask: 0xff00 })
        );
    }
}
