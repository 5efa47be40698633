//! The promised calls, a test for each row of the table: open, ask, allocate, move, advise, host view, swap, fail, fall back,
//! zero-copy.

mod advise;
mod allocate;
mod ask;
mod fail;
mod fall_back;
mod host_view;
mod moves;
mod open;
mod swap;
mod zero_copy;

use um_backend::{Buffer, HintOutcome, cuda_um::Error};

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|number| number as f32).collect()
}

fn contents(buffer: &dyn Buffer<f32>) -> Vec<f32> {
    let mut found = vec![-1.0; buffer.len()];
    buffer.copy_to_host(&mut found).unwrap();
    found
}

/// Applied if managed memory can migrate; otherwise an outcome with a reason, and no error.
fn applied_if(expected: bool, outcome: &HintOutcome) {
    match outcome {
        HintOutcome::Applied => assert!(expected, "applied where it cannot be"),
        HintOutcome::NotApplied { what, needs, have } => {
            assert!(!expected, "{outcome}");
            assert!(!what.is_empty() && !needs.is_empty() && !have.is_empty());
            let text = outcome.to_string();
            assert!(text.contains(needs) && text.contains(have), "{text}");
            let error = outcome.clone().require().unwrap_err();
            let not_supported = matches!(error, Error::NotSupported { .. });
            assert!(not_supported, "{error:?}");
        }
        other => panic!("{other}"),
    }
}
