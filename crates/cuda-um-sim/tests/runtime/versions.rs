//! Which symbols and signatures each version has.

use cuda_um_sim::{CudaVersion, Sim};

use crate::support::call;

const VERSIONS: [CudaVersion; 4] = [
    CudaVersion::V11_8,
    CudaVersion::V12_2,
    CudaVersion::V12_9,
    CudaVersion::V13_0,
];

#[test]
fn pointer_attributes_grow_with_13() {
    for version in VERSIONS {
        let sim = Sim::builder().cuda(version).build().unwrap();
        let table = sim.table();
        let mut pointer = std::ptr::null_mut();
        assert_eq!(call!(table, cudaMallocManaged(&mut pointer, 4096, 1)).0, 0);
        let mut room = [0xaau8; 96];
        assert_eq!(
            call!(
                table,
                cudaPointerGetAttributes(room.as_mut_ptr().cast(), pointer)
            )
            .0,
            0
        );
        assert_eq!(room[0], 3, "managed");
        let written = room
            .iter()
            .rposition(|byte| *byte != 0xaa)
            .map_or(0, |last| last + 1);
        assert_eq!(
            written,
            if version == CudaVersion::V13_0 {
                88
            } else {
                24
            },
            "{version:?}"
        );
    }
}

#[test]
fn the_environment_chooses_machine_and_version() {
    // Each call reads the variables once; only this test sets them, in a process of its own.
    let run = |name: &str, value: &str| {
        let arguments = ["--exact", "versions::from_env_in_a_child", "--nocapture"];
        let output = cuda_um_testkit::this_program()
            .args(arguments)
            .env("CUDA_UM_SIM_CHILD", "1")
            .env(name, value)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("CUDA_UM_SIM_GPU", "gh200").contains("GH200"));
    assert!(run("CUDA_UM_SIM_CUDA", "12.2").contains("V12_2"));
    assert!(run("CUDA_UM_SIM_DEVICES", "3").contains("devices: 3"));
    assert!(run("CUDA_UM_SIM_GPU", "voodoo").contains("CUDA_UM_SIM_GPU=voodoo: expected h200"));
}

/// Prints the settings of the environment; without its parent it checks that the defaults build.
#[test]
fn from_env_in_a_child() {
    if std::env::var_os("CUDA_UM_SIM_CHILD").is_none() {
        assert!(Sim::builder().build().is_ok());
        return;
    }
    match Sim::from_env() {
        Ok(sim) => {
            let mut devices = 0;
            assert_eq!(call!(sim.table(), cudaGetDeviceCount(&mut devices)).0, 0);
            println!("{sim:?} devices: {devices}");
        }
        Err(error) => println!("{error}"),
    }
}
