//! The transactions of a run in a file, for a program outside of this one.
//!
//! `benches/dbsp` compiles this file too, so it uses nothing of this program.
//!
//! The file is numbers of 32 bits, the low byte first. A transaction is what it takes out, then what it puts in; either is
//! its tables in the order of [`Rows`], and each table the number of its rows, then the rows.

use anyhow::{Context as _, Result, ensure};

use super::workload::{Change, Rows};

/// All transactions of a run, by kind. Open vSwitch answers each but the load.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transactions {
    /// The load.
    pub(crate) load: Change,
    /// Those that move ports, each with its answer.
    pub(crate) moves: Vec<[Change; 2]>,
    /// Those that add ports, each with its answer, and those that take them back, each with its answer.
    pub(crate) additions: Vec<[[Change; 2]; 2]>,
}

impl Transactions {
    /// Sorts transactions that come in the order in which they are run.
    pub(crate) fn sort(transactions: impl IntoIterator<Item = Change>, steps: usize) -> Result<Transactions> {
        let mut transactions = transactions.into_iter();
        let load = transactions.next().context("there is no load")?;
        let mut two = || Some([transactions.next()?, transactions.next()?]);
        let moves: Option<Vec<_>> = (0..steps).map(|_| two()).collect();
        let additions: Option<Vec<_>> = (0..steps).map(|_| Some([two()?, two()?])).collect();
        let short = "there are fewer transactions than steps";
        let sorted =
            Transactions { load, moves: moves.context(short)?, additions: additions.context(short)? };
        ensure!(transactions.next().is_none(), "there are more transactions than steps");
        Ok(sorted)
    }
}

/// The content of a file: the number of steps, then transactions in the order in which they are run.
pub(crate) fn write(steps: usize, transactions: &[Change]) -> Vec<u8> {
    let mut bytes = (steps as u32).to_le_bytes().to_vec();
    for change in transactions {
        for rows in [&change.delete, &change.insert] {
            for pairs in [&rows.port, &rows.presence, &rows.encap, &rows.locator, &rows.stage] {
                put(pairs, &mut bytes);
            }
            put(&rows.tunnel_port, &mut bytes);
        }
    }
    bytes
}

fn put<const WIDTH: usize>(rows: &[[u32; WIDTH]], bytes: &mut Vec<u8>) {
    let count = rows.len() as u32;
    for number in std::iter::once(&count).chain(rows.as_flattened()) {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// The transactions of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Transactions> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    ensure!(rest.is_empty(), "the file does not end after a number");
    let mut numbers = numbers.iter().map(|number| u32::from_le_bytes(*number));
    let steps = numbers.next().context("the file is empty")? as usize;
    let mut transactions = Vec::new();
    while numbers.len() > 0 {
        let delete = side(&mut numbers)?;
        transactions.push(Change { delete, insert: side(&mut numbers)? });
    }
    Transactions::sort(transactions, steps)
}

fn side(numbers: &mut impl ExactSizeIterator<Item = u32>) -> Result<Rows> {
    Ok(Rows {
        port: take(numbers)?,
        presence: take(numbers)?,
        encap: take(numbers)?,
        locator: take(numbers)?,
        stage: take(numbers)?,
        tunnel_port: take(numbers)?,
    })
}

fn take<const WIDTH: usize>(numbers: &mut impl ExactSizeIterator<Item = u32>) -> Result<Vec<[u32; WIDTH]>> {
    let end = "the file ends within a transaction";
    let count = numbers.next().context(end)? as usize;
    ensure!(numbers.len() / WIDTH >= count, end);
    let row = |_| std::array::from_fn(|_| numbers.next().unwrap_or(0));
    Ok((0..count).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::super::workload::Network;
    use super::*;

    #[test]
    fn a_file_holds_what_was_written() {
        let network = Network::nvp_eval(100);
        let mut all = vec![Change { insert: network.rows(), ..Change::default() }];
        all.extend(network.moves(2, 10));
        all.extend(network.additions(4, 10));
        let bytes = write(1, &all);
        let read_back = read(&bytes).expect("it is whole");
        let [moved, answer, added, second, removed, last] = [1, 2, 3, 4, 5, 6].map(|at| all[at].clone());
        let additions = vec![[[added, second], [removed, last]]];
        let expected = Transactions { load: all[0].clone(), moves: vec![[moved, answer]], additions };
        assert_eq!(read_back, expected);
        assert!(read(&bytes[..bytes.len() - 4]).is_err());
        assert!(read(&write(2, &all)).is_err());
        assert!(read(&write(0, &all)).is_err());
    }
}
