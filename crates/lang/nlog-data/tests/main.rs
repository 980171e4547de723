//! Values, schemas, transactions, JSON and saved states.

mod bounds;
mod columns;
mod encodings;
mod errors;
mod function_table;
mod functions;
mod inputs;
mod interface_addresses;
mod json;
mod json_columns;
mod literals;
mod memory;
mod open_vswitch;
mod quotations;
mod reference;
mod state;
mod support;
