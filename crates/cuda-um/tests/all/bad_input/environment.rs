//! Environment variables with invalid values. Each is read in a separate process: this test runs itself again.

use cuda_um::{DeviceBuffer, Error, Runtime};
use cuda_um_sim::Sim;
use cuda_um_testkit::{again, is_child};
use std::ffi::OsString;

/// The first error of a process.
fn error() -> String {
    if std::env::var_os("CUDA_UM_CUDART").is_some() {
        let error = Runtime::open().unwrap_err();
        assert!(matches!(error, Error::Load(_)), "{error:?}");
        return error.to_string();
    }
    match Sim::from_env() {
        Err(error) => error.to_string(),
        Ok(sim) => {
            let device = Runtime::from_table(sim.table()).unwrap().device(0);
            let buffer = device.and_then(|device| DeviceBuffer::<u8>::zeroed(&device, 100));
            buffer.unwrap_err().to_string()
        }
    }
}

#[test]
fn an_error_names_the_variable_and_its_value() {
    if is_child() {
        return println!("said: {}", error().replace('\n', " "));
    }
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "[package]\nname = \"text\"\n").unwrap();
    let text = text.path().to_str().unwrap();
    // A file that is no library.
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    for (name, value, says) in [
        (
            "CUDA_UM_CUDART",
            "/no/such/libcudart.so",
            "/no/such/libcudart.so",
        ),
        ("CUDA_UM_CUDART", "\u{1}\u{7f}", "\u{1}\u{7f}"),
        ("CUDA_UM_CUDART", "/", "/"),
        ("CUDA_UM_CUDART", this, this),
        (
            "CUDA_UM_COST_MODEL",
            "/no/such/file",
            "CUDA_UM_COST_MODEL cannot be /no/such/file",
        ),
        ("CUDA_UM_COST_MODEL", text, "an object in JSON"),
        ("CUDA_UM_COST_MODEL", "/dev/zero", "larger than 65536 bytes"),
        ("CUDA_UM_POOLS", "maybe", "CUDA_UM_POOLS cannot be "),
        ("CUDA_UM_SIM_GPU", "h2000", "h200, gh200"),
        ("CUDA_UM_SIM_CUDA", "13", "11.8, 12.2"),
        ("CUDA_UM_SIM_DEVICES", "0", "1 to 8"),
        ("CUDA_UM_SIM_DEVICES", "-1", "1 to 8"),
        ("CUDA_UM_SIM_DEVICES", "99999999999999999999999", "1 to 8"),
        ("CUDA_UM_SIM_GPU", "not UTF-8", "CUDA_UM_SIM_GPU=h200"),
    ] {
        let mut child = again("bad_input::environment::an_error_names_the_variable_and_its_value");
        let output = child.env(name, value_of(value)).output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        let said = output
            .split("said: ")
            .nth(1)
            .unwrap_or_else(|| panic!("{output}"));
        assert!(said.contains(says), "{name}={value}: {said}");
        let is_simulators = name.starts_with("CUDA_UM_SIM") && value != "not UTF-8";
        assert!(
            !is_simulators || said.contains(&format!("{name}={value}")),
            "{said}"
        );
    }
}

/// The value, or one that is no text.
fn value_of(value: &str) -> OsString {
    #[cfg(unix)]
    if value == "not UTF-8" {
        return std::os::unix::ffi::OsStringExt::from_vec(b"h200\xff".to_vec());
    }
    value.into()
}
