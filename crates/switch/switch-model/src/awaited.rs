//! Learned flows by which interfaces announce themselves.

use std::sync::Arc;

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;

use crate::kind::{Kind, Lasting, Reader, RowError, int, text};
use crate::table::{INT, STRING, SwitchTable};

/// The last table of a switch.
const TABLE_MAX: u8 = 254;

/// The learned flows that a driver reports, by table and cookie, and the port whose interface announces itself by each.
#[derive(Debug)]
pub enum AwaitedFlows {}

impl Kind for AwaitedFlows {
    const TABLE: SwitchTable = SwitchTable::output(
        "awaited_flow",
        &[("hv", STRING), ("table_id", INT), ("cookie", INT), ("port", STRING)],
    );
    type Key = (u8, u64);
    type Value = Arc<str>;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, (u8, u64), Arc<str>), RowError> {
        let [Value::String(host), Value::Int(table), Value::Int(cookie), Value::String(port)] = &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let fault = || {
            let why = format!("{row:?}: the last table is {TABLE_MAX}, and a cookie is not negative");
            RowError::Range(format!("{}: {why}", Self::TABLE.name))
        };
        let table = u8::try_from(*table).ok().filter(|table| *table <= TABLE_MAX).ok_or_else(fault)?;
        let cookie = u64::try_from(*cookie).map_err(|_| fault())?;
        Ok((host, (table, cookie), Arc::clone(port)))
    }
}

impl Lasting for AwaitedFlows {
    fn row(host: &str, (table, cookie): &(u8, u64), port: &Arc<str>) -> Result<Row, DecodeError> {
        // It was not negative.
        let cookie = i64::try_from(*cookie).unwrap_or(i64::MAX);
        Ok(vec![text(host), int(*table), int(cookie), text(port)])
    }
}
