//! Meters: limits of the packets that pass.

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;

use crate::kind::{Kind, Lasting, Reader, RowError, int, number, text};
use crate::table::{INT, STRING, SwitchTable};

/// The greatest meter number that the desired state may use: the most meters that the kernel's datapath has. That in user
/// space has more.
pub const METER_MAX: u32 = 200_000;

/// A limit of the packets that pass: those beyond it are dropped and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meter {
    /// Packets a second.
    pub rate: u32,
    /// The packets that may pass at once.
    pub burst: u32,
}

/// The meters of a switch, by number.
#[derive(Debug)]
pub enum Meters {}

impl Kind for Meters {
    const TABLE: SwitchTable =
        SwitchTable::output("of_meter", &[("hv", STRING), ("meter", INT), ("rate", INT), ("burst", INT)]);
    type Key = u32;
    type Value = Meter;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, u32, Meter), RowError> {
        let [Value::String(host), Value::Int(id), Value::Int(rate), Value::Int(burst)] = &row[..] else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let number = |what, value: &i64, last| number(&Self::TABLE, host, what, *value, (1, last));
        let meter = Meter { rate: number("rate", rate, u32::MAX)?, burst: number("burst", burst, u32::MAX)? };
        Ok((host, number("meter", id, METER_MAX)?, meter))
    }
}

impl Lasting for Meters {
    fn row(host: &str, id: &u32, Meter { rate, burst }: &Meter) -> Result<Row, DecodeError> {
        Ok(vec![text(host), int(*id), int(*rate), int(*burst)])
    }
}
