//! Captures and graphs: what is recorded, what is refused, launches, named scalars.

mod capture;
mod foreign;
mod launch;
mod refused;
mod residency;
mod stamps;
