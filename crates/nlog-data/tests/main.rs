//! Values, schemas, transactions, JSON and saved states.

mod columns;
mod errors;
mod functions;
mod inputs;
mod json;
mod json_columns;
mod memory;
mod open_vswitch;
mod reference;
mod state;
mod support;
