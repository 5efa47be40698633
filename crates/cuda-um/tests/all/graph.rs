//! Captures and graphs: what is recorded, what is refused, launches, parameters, updates.

mod capture;
mod conditions;
mod foreign;
mod launch;
mod parameters;
mod refused;
mod residency;
