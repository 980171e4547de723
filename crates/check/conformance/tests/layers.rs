//! The layers of the rules and their columns: logical tables name no host, and each row of a physical table belongs to
//! one host.

use std::path::Path;

/// The names of columns that contain a host.
const HOST: [&str; 4] = ["hv", "node", "remote", "host"];

/// The names and columns of the tables that the files of a folder declare.
fn tables(folder: &str) -> Vec<(String, Vec<String>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules").join(folder);
    let mut found = Vec::new();
    for file in nlog::source::files_of(&folder).expect("the folder is there") {
        if nlog::source::is_test_file(&file) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("the file is text");
        for line in text.split(';').flat_map(|part| part.split("\ntable ").skip(1)) {
            let (name, columns) = line.split_once('(').expect("columns follow the name");
            let columns = columns.split_once(')').expect("columns end").0;
            let columns = columns
                .split(',')
                .map(|column| column.split(':').next().unwrap_or_default().trim().to_owned());
            found.push((name.to_owned(), columns.collect()));
        }
    }
    found
}

fn is_host(column: &str) -> bool {
    HOST.contains(&column)
}

#[test]
fn no_logical_table_names_a_host() {
    let tables = tables("logical");
    assert!(tables.len() > 10, "{tables:?}");
    for (name, columns) in tables {
        assert!(!columns.iter().any(|column| is_host(column)), "{name}: {columns:?}");
    }
}

#[test]
fn every_physical_table_begins_with_its_host() {
    let tables = tables("physical");
    assert!(tables.len() > 10, "{tables:?}");
    for (name, columns) in tables {
        assert!(is_host(&columns[0]), "{name}: {columns:?}");
    }
}
