//! Environment variables with invalid values. Each is read in a separate process: this test runs itself again.

use cuda_um::{Error, Runtime};
use cuda_um_sim::Sim;
use cuda_um_testkit::{Checked, again, is_child};

/// The output of a test of this file when it runs again with these variables.
fn said(test: &str, variables: &[(&str, &str)]) -> String {
    let output = again(test).envs(variables.iter().copied()).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let said = text.split("said: ").nth(1).expect("the child says it");
    said.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_library_that_is_not_there() {
    if is_child() {
        let error = Runtime::open().unwrap_err();
        assert!(matches!(error, Error::Load(_)), "{error:?}");
        println!("said: {}", error.to_string().replace('\n', " "));
        return;
    }
    let test = "bad_input::environment::a_library_that_is_not_there";
    for nonsense in ["/no/such/folder/libcudart.so", "\u{1}\u{7f}", "/"] {
        let text = said(test, &[("CUDA_UM_CUDART", nonsense)]);
        assert!(text.contains(nonsense), "{text}");
    }
}

#[test]
fn a_file_that_is_no_library() {
    if is_child() {
        let error = Runtime::open().unwrap_err();
        assert!(matches!(error, Error::Load(_)), "{error:?}");
        println!("said: {}", error.to_string().replace('\n', " "));
        return;
    }
    let test = "bad_input::environment::a_file_that_is_no_library";
    // A file that exists wherever the test runs.
    let file = std::env::current_exe().unwrap();
    let file = file.to_str().unwrap();
    let text = said(test, &[("CUDA_UM_CUDART", file)]);
    assert!(text.contains(file), "{text}");
}

#[test]
fn a_cost_model_that_is_none() {
    if is_child() {
        let sim = Checked::new(Sim::builder().build().unwrap());
        let error = Runtime::from_table(sim.table()).unwrap().device(0);
        println!("said: {}", error.unwrap_err());
        return;
    }
    let test = "bad_input::environment::a_cost_model_that_is_none";
    let text = said(test, &[("CUDA_UM_COST_MODEL", "/no/such/file")]);
    assert!(
        text.contains("CUDA_UM_COST_MODEL cannot be /no/such/file"),
        "{text}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[package]\nname = \"text\"\n").unwrap();
    let path = file.path().to_str().unwrap();
    let text = said(test, &[("CUDA_UM_COST_MODEL", path)]);
    assert!(text.contains("an object in JSON"), "{text}");
    let text = said(test, &[("CUDA_UM_COST_MODEL", "/dev/zero")]);
    assert!(text.contains("larger than 65536 bytes"), "{text}");
}

#[test]
fn a_simulator_that_is_none() {
    if is_child() {
        println!("said: {}", Sim::from_env().unwrap_err());
        return;
    }
    let test = "bad_input::environment::a_simulator_that_is_none";
    for (name, value, allowed) in [
        ("CUDA_UM_SIM_GPU", "h2000", "h200, gh200"),
        ("CUDA_UM_SIM_CUDA", "13", "11.8, 12.2"),
        ("CUDA_UM_SIM_DEVICES", "0", "1 to 8"),
        ("CUDA_UM_SIM_DEVICES", "-1", "1 to 8"),
        ("CUDA_UM_SIM_DEVICES", "99999999999999999999999", "1 to 8"),
    ] {
        let text = said(test, &[(name, value)]);
        assert!(text.contains(&format!("{name}={value}")), "{text}");
        assert!(text.contains(allowed), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_setting_that_is_no_text() {
    use std::os::unix::ffi::OsStrExt;
    if is_child() {
        println!("said: {}", Sim::from_env().unwrap_err());
        return;
    }
    let mut command = again("bad_input::environment::a_setting_that_is_no_text");
    let no_text = std::ffi::OsStr::from_bytes(b"h200\xff");
    let output = command.env("CUDA_UM_SIM_GPU", no_text).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("said: CUDA_UM_SIM_GPU=h200"), "{text}");
}
