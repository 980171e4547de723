//! Sets of IPFIX collectors, which actions `sample` name by number.

use std::collections::BTreeSet;

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;

use crate::kind::{Kind, Lasting, Reader, RowError, int, text};
use crate::table::{INT, STRING, SwitchTable, TEXTS};

/// Where a switch sends what actions `sample` report, and how long it gathers the packets of a flow in one record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectorSet {
    /// The collectors, each `ADDRESS:PORT`. Each gets all records.
    pub targets: BTreeSet<String>,
    /// The seconds after which a record is sent; with 0, there is one for each packet.
    pub active_timeout: u16,
    /// The most records that are gathered at a time; for one more, the oldest is sent.
    pub flows_max: u32,
}

/// The sets of collectors of a switch, by number.
#[derive(Debug)]
pub enum CollectorSets {}

impl Kind for CollectorSets {
    const TABLE: SwitchTable = SwitchTable::output(
        "collector_set",
        &[("hv", STRING), ("number", INT), ("targets", TEXTS), ("active_timeout", INT), ("flows_max", INT)],
    );
    type Key = u32;
    type Value = CollectorSet;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, u32, CollectorSet), RowError> {
        let [
            Value::String(host),
            Value::Int(number),
            Value::Set(targets),
            Value::Int(active_timeout),
            Value::Int(flows_max),
        ] = &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let fault = |what: &str, number: &i64, last: u32| {
            let why = format!("{what} {number} is out of range; it is from 0 to {last}");
            RowError::range(&Self::TABLE, host, why)
        };
        let targets = targets.iter().map(|target| match target {
            Value::String(target) => Ok(target.to_string()),
            _ => Err(RowError::misfit(&Self::TABLE, row)),
        });
        let set = CollectorSet {
            targets: targets.collect::<Result<_, _>>()?,
            active_timeout: u16::try_from(*active_timeout)
                .map_err(|_| fault("active_timeout", active_timeout, u16::MAX.into()))?,
            flows_max: u32::try_from(*flows_max).map_err(|_| fault("flows_max", flows_max, u32::MAX))?,
        };
        let number = u32::try_from(*number).map_err(|_| fault("number", number, u32::MAX))?;
        Ok((host, number, set))
    }
}

impl Lasting for CollectorSets {
    fn row(host: &str, number: &u32, set: &CollectorSet) -> Result<Row, DecodeError> {
        let targets: Vec<Value> = set.targets.iter().map(text).collect();
        let numbers = [int(set.active_timeout), int(set.flows_max)];
        Ok([&[text(host), int(*number), Value::Set(targets.into())][..], &numbers].concat())
    }
}
