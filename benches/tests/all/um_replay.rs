//! The program, on the trace of a small program and on invalid input.

use crate::program;
use cuda_um::{Runtime, UnifiedBuffer};
use cuda_um_sim::Sim;
use std::path::Path;
use std::process::Output;

fn um_replay(trace: &Path, arguments: &[&str]) -> Output {
    program("um_replay", env!("CARGO_BIN_EXE_um_replay"))
        .arg(trace)
        .args(arguments)
        .output()
        .unwrap()
}

fn recorded() -> String {
    let runtime = Runtime::from_table(Sim::builder().build().unwrap().table()).unwrap();
    let device = runtime.device(0).unwrap();
    let work = || -> cuda_um::Result<()> {
        let mut data = UnifiedBuffer::<u8>::zeroed(&device, 1 << 20)?;
        data.set_name("data");
        data.host_mut()?.fill(1);
        Ok(())
    };
    let (done, trace) = um_backend::profile::profile(&runtime, work).unwrap();
    done.unwrap();
    trace.to_json()
}

#[test]
fn it_predicts_writes_and_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (folder.path().join("t.json"), folder.path().join("r.html"));
    std::fs::write(&trace, recorded()).unwrap();
    let page_name = page.display().to_string();
    let output = um_replay(&trace, &["--gpu", "pascal", "--html", &page_name]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for part in [
        "recorded by simulator (CUDA 13.0)",
        "predicted / recorded: ",
        "data",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(
        std::fs::read_to_string(&page)
            .unwrap()
            .contains("<!doctype html>")
    );

    let mapped = um_replay(&trace, &["--change", "data=mapped"]);
    assert!(
        String::from_utf8(mapped.stdout)
            .unwrap()
            .contains("Nothing moved")
    );

    let refused = |arguments: &[&str], status: i32, says: &str| {
        let output = um_replay(&trace, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.contains(says), "no {says} in {text}");
    };
    refused(
        &["--change", "dta=mapped"],
        1,
        "no buffer of the trace is named `dta`; there are: data",
    );
    refused(&["--change", "mappd"], 2, "`mappd` is not a change");
    std::fs::write(&trace, "{\"format\":9}").unwrap();
    refused(&[], 1, "the trace has format 9");
}
