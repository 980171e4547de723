//! `sample(probability=P,collector_set_id=S,obs_domain_id=D,obs_point_id=O)`: reports packets to IPFIX collectors.

use super::*;
use crate::PortNo;
use crate::field::text::int;

/// Reports some of the packets to the IPFIX collectors of a row of `Flow_Sample_Collector_Set`, with the headers that they have here.
/// The packet itself stays as it is. Without such a row, nothing is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sample {
    /// How many of 65,535 packets are reported; at least 1.
    probability: u16,
    /// The set of collectors, by its number in the database.
    pub collector_set_id: u32,
    /// The observation domain that the reports name.
    pub obs_domain_id: u32,
    /// The observation point that the reports name.
    pub obs_point_id: u32,
    /// The port whose number, and whose tunnel, the reports name.
    pub sampling_port: Option<PortNo>,
    /// The direction that the reports name.
    pub direction: SampleDirection,
}

/// Which way a packet goes, for its collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampleDirection {
    /// Out, if there is a sampling port and the packet goes there; otherwise in.
    #[default]
    Unsaid,
    /// In.
    Ingress,
    /// Out.
    Egress,
}

impl SampleDirection {
    const ALL: [SampleDirection; 3] =
        [SampleDirection::Unsaid, SampleDirection::Ingress, SampleDirection::Egress];

    /// Its number on the wire.
    fn number(self) -> u8 {
        match self {
            SampleDirection::Unsaid => 0,
            SampleDirection::Ingress => 1,
            SampleDirection::Egress => 2,
        }
    }

    /// Its text, which follows the other arguments.
    fn text(self) -> &'static str {
        match self {
            SampleDirection::Unsaid => "",
            SampleDirection::Ingress => "ingress",
            SampleDirection::Egress => "egress",
        }
    }
}

/// Without port and direction.
const PLAIN: Wire = Wire::Nx(29);
/// With a port.
const WITH_PORT: Wire = Wire::Nx(38);
/// With a port or none, and a direction.
const WITH_DIRECTION: Wire = Wire::Nx(41);
/// What stands on the wire for no port.
const NO_PORT: PortNo = PortNo::ANY;

impl Sample {
    /// Reports `probability` of 65,535 packets to a set of collectors. None if that is no packet.
    pub fn new(
        probability: u16,
        collector_set_id: u32,
        obs_domain_id: u32,
        obs_point_id: u32,
    ) -> Option<Sample> {
        let (sampling_port, direction) = (None, SampleDirection::Unsaid);
        let sample =
            Sample { probability, collector_set_id, obs_domain_id, obs_point_id, sampling_port, direction };
        (probability > 0).then_some(sample)
    }

    /// How many of 65,535 packets are reported.
    pub fn probability(self) -> u16 {
        self.probability
    }

    /// The form on the wire that Open vSwitch chooses.
    fn wire(self) -> Wire {
        match self {
            Sample { direction: SampleDirection::Unsaid, sampling_port: None, .. } => PLAIN,
            Sample { direction: SampleDirection::Unsaid, .. } => WITH_PORT,
            _ => WITH_DIRECTION,
        }
    }
}

impl Body for Sample {
    const NAMES: &'static [&'static str] = &["sample"];
    const WIRE: &'static [Wire] = &[PLAIN, WITH_PORT, WITH_DIRECTION];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "sample",
        "Reports packets to the IPFIX collectors of a set, with the headers that they have here. The packet goes on as if it \
         was not there. If the switch has no such set, nothing is reported.",
        &[
            Parameter::number(
                "probability",
                u16::MAX as u64,
                "How many of 65,535 packets are reported, from 1.",
            )
            .named()
            .required(),
            Parameter::number("collector_set_id", u32::MAX as u64, "The set of collectors.")
                .named()
                .required(),
            Parameter::number(
                "obs_domain_id",
                u32::MAX as u64,
                "The observation domain that the reports name.",
            )
            .named(),
            Parameter::number(
                "obs_point_id",
                u32::MAX as u64,
                "The observation point that the reports name.",
            )
            .named(),
            Parameter::port("sampling_port", "The port that the reports name.").named(),
            Parameter::flag("ingress", "The reports say that the packet comes in."),
            Parameter::flag("egress", "The reports say that the packet goes out."),
        ],
        &[
            (
                "sample(probability: 65535, collector_set_id: 1, obs_domain_id: 5, obs_point_id: 7)",
                "sample(probability=65535,collector_set_id=1,obs_domain_id=5,obs_point_id=7)",
            ),
            (
                "sample(probability: 1, collector_set_id: 1, ingress)",
                "sample(probability=1,collector_set_id=1,obs_domain_id=0,obs_point_id=0,ingress)",
            ),
            (
                "sample(probability: 1, collector_set_id: 1, sampling_port: 9, egress)",
                "sample(probability=1,collector_set_id=1,obs_domain_id=0,obs_point_id=0,sampling_port=9,egress)",
            ),
        ],
        |given| {
            let direction = match (given.flag("ingress"), given.flag("egress")) {
                (true, true) => {
                    return Err(Refusal::arguments(
                        "a packet comes in or goes out",
                        "leave out `ingress` or `egress`",
                    ));
                }
                (true, false) => SampleDirection::Ingress,
                (false, true) => SampleDirection::Egress,
                (false, false) => SampleDirection::Unsaid,
            };
            let domain = given.optional("obs_domain_id").unwrap_or(0);
            let point = given.optional("obs_point_id").unwrap_or(0);
            match Sample::new(given.number("probability")?, given.number("collector_set_id")?, domain, point)
            {
                Some(sample) => {
                    Ok(Sample { sampling_port: given.port("sampling_port"), direction, ..sample }.into())
                }
                None => Err(Refusal::values(
                    "probability 0 samples no packet",
                    "write 1 to 65535, which is every packet",
                )),
            }
        },
    )];

    fn decode(wire: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let (probability, set, domain, point) = (body.u16()?, body.u32()?, body.u32()?, body.u32()?);
        let sample =
            Sample::new(probability, set, domain, point).ok_or_else(|| at.fault(Fault::Unknown(0)))?;
        if wire == PLAIN {
            return Ok(sample);
        }
        let port = PortNo(body.u16()?);
        let sampling_port = (port != NO_PORT).then_some(port);
        if wire == WITH_PORT {
            body.skip(body.left())?;
            return Ok(Sample { sampling_port, ..sample });
        }
        let number = body.u8()?;
        let direction = SampleDirection::ALL.into_iter().find(|direction| direction.number() == number);
        let direction = direction.ok_or_else(|| at.fault(Fault::Unknown(u64::from(number))))?;
        body.zeros(5)?;
        Ok(Sample { sampling_port, direction, ..sample })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let wire = self.wire();
        wire.put(out, |out| {
            out.extend_from_slice(&self.probability.to_be_bytes());
            out.extend_from_slice(&self.collector_set_id.to_be_bytes());
            out.extend_from_slice(&self.obs_domain_id.to_be_bytes());
            out.extend_from_slice(&self.obs_point_id.to_be_bytes());
            if wire != PLAIN {
                out.extend_from_slice(&self.sampling_port.unwrap_or(NO_PORT).0.to_be_bytes());
                out.push(self.direction.number());
            }
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { probability, collector_set_id, obs_domain_id, obs_point_id, sampling_port, direction } =
            self;
        write!(f, "sample(probability={probability},collector_set_id={collector_set_id}")?;
        write!(f, ",obs_domain_id={obs_domain_id},obs_point_id={obs_point_id}")?;
        if let Some(port) = sampling_port {
            write!(f, ",sampling_port={port}")?;
        }
        match direction.text() {
            "" => f.write_str(")"),
            text => write!(f, ",{text})"),
        }
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let form =
            || ParseError::value(call.text, "sample action: sample(probability=P,collector_set_id=S,…)");
        let number = |value| int(value, "number of 32 bits");
        let (mut probability, mut direction, mut sampling_port) = (0, SampleDirection::Unsaid, None);
        let (mut set, mut domain, mut point) = (0, 0, 0);
        for part in call.arg.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=').unwrap_or((part, "")) {
                ("probability", value) => probability = int(value, "probability, from 1 to 65535")?,
                ("collector_set_id", value) => set = number(value)?,
                ("obs_domain_id", value) => domain = number(value)?,
                ("obs_point_id", value) => point = number(value)?,
                ("sampling_port", value) => {
                    sampling_port = Some(value.parse()?).filter(|port| *port != NO_PORT);
                }
                ("ingress", "") => direction = SampleDirection::Ingress,
                ("egress", "") => direction = SampleDirection::Egress,
                _ => return Err(form()),
            }
        }
        let sample = Sample::new(probability, set, domain, point).ok_or_else(form)?;
        Ok(Sample { sampling_port, direction, ..sample }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        (
            "sample(probability=65535,collector_set_id=9,obs_domain_id=5,obs_point_id=77)",
            "ffff 0018 00002320 001d ffff 00000009 00000005 0000004d",
        ),
        (
            "sample(probability=1,collector_set_id=9,obs_domain_id=0,obs_point_id=4294967295,sampling_port=101)",
            "ffff 0020 00002320 0026 0001 00000009 00000000 ffffffff 0065 00 0000000000",
        ),
        (
            "sample(probability=2,collector_set_id=0,obs_domain_id=3,obs_point_id=4,sampling_port=LOCAL,egress)",
            "ffff 0020 00002320 0029 0002 00000000 00000003 00000004 fffe 02 0000000000",
        ),
        (
            "sample(probability=2,collector_set_id=0,obs_domain_id=3,obs_point_id=4,ingress)",
            "ffff 0020 00002320 0029 0002 00000000 00000003 00000004 ffff 01 0000000000",
        ),
    ]);
    testing::check_spellings([(
        "sample( obs_point_id=7, probability=0x10)",
        "sample(probability=16,collector_set_id=0,obs_domain_id=0,obs_point_id=7)",
    )]);
    testing::check_refused([
        "sample",
        "sample()",
        "sample(probability=0,collector_set_id=1)",
        "sample(probability=65536,collector_set_id=1)",
        "sample(collector_set_id=1)",
        "sample(probability=1,collector_set=1)",
        "sample(probability=1,ingress=1)",
        "sample(probability=1,collector_set_id=4294967296)",
    ]);
    testing::check_malformed([
        "ffff 0018 00002320 001d 0000 00000009 00000005 0000004d",
        "ffff 0020 00002320 0029 0002 00000000 00000003 00000004 fffe 03 0000000000",
        "ffff 0020 00002320 0029 0002 00000000 00000003 00000004 fffe 02 0000000001",
    ]);
}
