//! Captures and graphs: what is recorded, what is refused, launches, parameters, updates.

mod capture;
mod conditions;
mod launch;
mod parameters;
mod refused;
mod residency;
