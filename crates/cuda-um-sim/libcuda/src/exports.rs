//! The exported functions. Each one jumps to its target, so this file needs none of the signatures, of which some depend on the version.
#![allow(non_snake_case, non_camel_case_types, reason = "C names")]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::start::sim;

macro_rules! exports {
    ($($name:ident)*) => {
        #[repr(usize)]
        enum Index { $($name),* }

        /// The names of the exported functions.
        static NAMES: [&str; [$(Index::$name as usize),*].len()] = [$(stringify!($name)),*];

        /// The addresses to which they jump, in the same order. In the beginning that is the start of the simulator.
        static TARGETS: [AtomicPtr<c_void>; NAMES.len()] =
            [const { AtomicPtr::new(start as *mut c_void) }; NAMES.len()];

        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name() {
                naked_asm!(
                    "mov eax, {index}",
                    "jmp qword ptr [rip + {targets} + {index} * 8]",
                    index = const Index::$name as usize,
                    targets = sym TARGETS,
                )
            }
        )*
    };
}

/// Finds the targets, and goes on as the function whose index is in `eax`. The arguments, all of them integers, stay where they are.
#[unsafe(naked)]
extern "C" fn start() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        // The seventh aligns the stack, too.
        "push rax",
        "call {find_targets}",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "lea r11, [rip + {targets}]",
        "jmp qword ptr [r11 + rax * 8]",
        find_targets = sym find_targets,
        targets = sym TARGETS,
    )
}

/// Gives every exported function its target. Any thread may call it, any number of times.
extern "C" fn find_targets() {
    let sim = sim();
    for (name, target) in NAMES.iter().zip(&TARGETS) {
        let found = sim.map_or(std::ptr::null(), |sim| sim.symbol(name));
        let address = match (found.is_null(), sim) {
            (false, _) => found,
            (true, Some(_)) => not_supported as *const c_void,
            // These return a text.
            (true, None) if ["cudaGetErrorName", "cudaGetErrorString"].contains(name) => {
                no_text as *const c_void
            }
            (true, None) => not_started as *const c_void,
        };
        target.store(address.cast_mut(), Ordering::Release);
    }
}

/// `cudaErrorNotSupported`, which is also the number of `CUDA_ERROR_NOT_SUPPORTED`.
extern "C" fn not_supported() -> u32 {
    801
}

/// `cudaErrorInitializationError`, which is also the number of `CUDA_ERROR_NOT_INITIALIZED`.
extern "C" fn not_started() -> u32 {
    3
}

/// Registers a fat binary before `main`. It returns a handle and no code, so it cannot be one of the functions below.
#[unsafe(no_mangle)]
unsafe extern "C" fn __cudaRegisterFatBinary(image: *const c_void) -> usize {
    let mut handle = 0;
    let found = sim().map_or(std::ptr::null(), |sim| {
        sim.symbol("cudaUmSimRegisterBinary")
    });
    if !found.is_null() {
        // SAFETY: the simulator's function of this name.
        let register: unsafe extern "C" fn(*mut usize, *const c_void) -> u32 =
            unsafe { std::mem::transmute(found) };
        // SAFETY: nvcc's code passes a fat binary that lives as long as the program.
        unsafe { register(&mut handle, image) };
    }
    handle
}

extern "C" fn no_text() -> *const c_char {
    const TEXT: &CStr = c"the simulator did not start: see standard error";
    TEXT.as_ptr()
}

// The runtime, the driver, CUPTI, and functions of the driver that the simulator does not have.
exports! {
    cudaGetLastError cudaPeekAtLastError cudaGetErrorName cudaGetErrorString cudaRuntimeGetVersion cudaDriverGetVersion
    cudaGetDriverEntryPoint cudaGetDevice cudaSetDevice cudaGetDeviceCount cudaDeviceGetAttribute cudaDeviceGetPCIBusId
    cudaDeviceGetStreamPriorityRange cudaDeviceSynchronize cudaDeviceCanAccessPeer cudaDeviceEnablePeerAccess
    cudaDeviceDisablePeerAccess cudaMemGetInfo cudaMallocManaged cudaMalloc cudaFree cudaHostAlloc cudaFreeHost
    cudaHostGetDevicePointer cudaHostGetFlags cudaHostRegister cudaHostUnregister cudaMemcpy cudaMemcpyAsync cudaMemcpyPeer
    cudaMemcpyPeerAsync cudaMemset cudaMemsetAsync cudaMemRangeGetAttribute cudaMemRangeGetAttributes cudaPointerGetAttributes
    cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamDestroy cudaStreamSynchronize cudaStreamQuery
    cudaStreamWaitEvent cudaStreamAttachMemAsync cudaLaunchHostFunc cudaEventCreateWithFlags cudaEventDestroy cudaEventRecord
    cudaEventQuery cudaEventSynchronize cudaEventElapsedTime cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolTrimTo
    cudaMemPoolSetAttribute cudaMemPoolGetAttribute cudaMemPoolSetAccess cudaDeviceGetDefaultMemPool cudaDeviceGetMemPool
    cudaDeviceSetMemPool cudaMallocAsync cudaMallocFromPoolAsync cudaFreeAsync cudaStreamGetDevice cudaMemPrefetchBatchAsync
    cudaMemDiscardBatchAsync cudaMemDiscardAndPrefetchBatchAsync cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemSetMemPool
    cudaMemGetLocationInfo cudaMemPrefetchAsync cudaMemAdvise cudaMemcpyBatchAsync cudaMemPrefetchAsync_v2 cudaMemAdvise_v2
    cudaGetDriverEntryPointByVersion cudaStreamBeginCapture cudaStreamEndCapture cudaStreamIsCapturing cudaStreamGetCaptureInfo
    cudaStreamGetCaptureInfo_v2 cudaStreamGetCaptureInfo_v3 cudaThreadExchangeStreamCaptureMode cudaEventRecordWithFlags cudaGraphDestroy
    cudaGraphGetNodes cudaGraphNodeGetType cudaGraphInstantiateWithFlags cudaGraphLaunch cudaGraphExecDestroy cudaGraphExecUpdate
    cudaGraphExecMemcpyNodeSetParams1D cudaGraphExecMemsetNodeSetParams cudaGraphConditionalHandleCreate cudaStreamBeginCaptureToGraph
    cudaGraphAddNode cudaGraphAddNode_v2 cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
    cudaDeviceGetP2PAttribute cudaDeviceReset cudaDeviceGetLimit cudaDeviceSetLimit cudaMemPoolGetAccess cudaStreamCreate cudaStreamGetFlags
    cudaStreamGetPriority cudaStreamGetId cudaEventCreate cudaMallocHost cudaGetDeviceProperties cudaGetDeviceProperties_v2
    __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaInitModule __cudaRegisterFunction __cudaRegisterVar __cudaGetKernel
    __cudaPushCallConfiguration __cudaPopCallConfiguration cudaLaunchKernel __cudaLaunchKernel cudaLaunchCooperativeKernel
    cudaLaunchKernelExC cudaFuncGetAttributes cudaFuncSetAttribute cudaFuncSetCacheConfig cudaGetFuncBySymbol
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaGetSymbolAddress
    cudaSetDeviceFlags cudaGetDeviceFlags cudaDeviceSetCacheConfig cudaCtxResetPersistingL2Cache cudaProfilerStart cudaProfilerStop
    cudaMallocPitch cudaMemcpy2D cudaMemcpy2DAsync cudaMemset2D cudaMemset2DAsync cudaGraphInstantiate cudaStreamSetAttribute
    cudaStreamAddCallback cudaGetSymbolSize cudaMemcpyToSymbol cudaMemcpyFromSymbol cudaMemcpyToSymbolAsync cudaMemcpyFromSymbolAsync
    cudaGraphCreate cudaGraphAddMemcpyNode1D cudaGraphMemcpyNodeSetParams1D cudaGraphAddEmptyNode cudaGraphAddChildGraphNode
    cudaGraphAddEventRecordNode cudaGraphAddEventWaitNode cudaGraphAddMemFreeNode cudaGraphChildGraphNodeGetGraph
    cudaGraphEventWaitNodeGetEvent cudaGraphEventRecordNodeGetEvent cudaGraphMemFreeNodeGetParams cudaGraphEventWaitNodeSetEvent
    cudaGraphEventRecordNodeSetEvent cudaGraphExecEventWaitNodeSetEvent cudaGraphExecEventRecordNodeSetEvent
    cudaGraphExecChildGraphNodeSetParams cudaGraphNodeSetParams cudaGraphExecNodeSetParams cudaGraphGetRootNodes cudaGraphGetEdges_v2
    cudaGraphNodeGetDependencies_v2 cudaGraphNodeGetDependentNodes_v2 cudaGraphAddDependencies_v2 cudaGraphRemoveDependencies_v2
    cudaGraphGetEdges cudaGraphNodeGetDependencies cudaGraphNodeGetDependentNodes cudaGraphAddDependencies cudaGraphRemoveDependencies
    cudaGraphDestroyNode cudaGraphClone cudaGraphNodeFindInClone cudaGraphDebugDotPrint cudaDeviceGetGraphMemAttribute
    cudaDeviceSetGraphMemAttribute cudaDeviceGraphMemTrim cudaGraphAddKernelNode cudaGraphAddMemcpyNode cudaGraphAddMemsetNode
    cudaGraphAddHostNode cudaGraphAddMemAllocNode cudaGraphKernelNodeGetParams cudaGraphMemcpyNodeGetParams cudaGraphMemsetNodeGetParams
    cudaGraphHostNodeGetParams cudaGraphMemAllocNodeGetParams cudaGraphKernelNodeSetParams cudaGraphMemcpyNodeSetParams
    cudaGraphMemsetNodeSetParams cudaGraphHostNodeSetParams cudaGraphExecKernelNodeSetParams cudaGraphExecMemcpyNodeSetParams
    cudaGraphExecHostNodeSetParams cudaGraphUpload cudaGraphInstantiateWithParams cudaGraphExecGetFlags
    cudaMemcpy3D cudaMemcpy3DAsync cudaMalloc3D cudaUserObjectCreate cudaUserObjectRetain cudaUserObjectRelease cudaGraphRetainUserObject
    cudaGraphReleaseUserObject

    cuDeviceGet cuDeviceGetName cuModuleLoadData cuModuleLoadDataEx cuModuleLoad cuModuleUnload cuModuleGetFunction
    cuFuncGetAttribute cuFuncGetParamInfo cuFuncSetAttribute cuOccupancyMaxActiveBlocksPerMultiprocessor
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuLaunchKernel cuUmSimLaunchKernel cuLaunchCooperativeKernel cuFuncSetCacheConfig
    cuMemsetD8Async cuPointerGetAttribute cuMemsetD16Async cuMemsetD32Async cuStreamWriteValue32 cuInit cuDriverGetVersion cuDeviceTotalMem_v2
    cuDeviceGetUuid cuDeviceGetUuid_v2 cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxGetState
    cuCtxGetCurrent cuCtxSetCurrent cuCtxGetDevice cuCtxGetApiVersion cuCtxSetFlags cuCtxSetCacheConfig cuCtxGetCacheConfig
    cuStreamGetCtx cuStreamIsCapturing cuProfilerStart cuProfilerStop cuGetProcAddress_v2 cuGetProcAddress cuGetErrorName cuGetExportTable
    cuGetErrorString cuMemAlloc_v2 cuMemAllocManaged cuMemAllocHost_v2 cuMemHostAlloc cuMemAllocAsync cuMemAllocFromPoolAsync
    cuMemcpy cuMemcpyAsync cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoD_v2
    cuMemcpyDtoDAsync_v2 cuMemcpyPeerAsync cuMemsetD8_v2 cuMemsetD32_v2 cuDeviceGetCount cuDeviceGetAttribute cuDeviceGetPCIBusId
    cuDeviceCanAccessPeer cuCtxSynchronize cuCtxGetStreamPriorityRange cuMemGetInfo_v2 cuStreamCreate cuStreamCreateWithPriority
    cuStreamDestroy_v2 cuStreamSynchronize cuStreamQuery cuStreamWaitEvent cuLaunchHostFunc cuStreamAttachMemAsync cuEventCreate
    cuEventDestroy_v2 cuEventRecord cuEventQuery cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2 cuMemFree_v2
    cuMemFreeHost cuMemFreeAsync cuMemHostRegister_v2 cuMemHostUnregister cuMemHostGetDevicePointer_v2 cuMemHostGetFlags
    cuMemPoolCreate cuMemPoolDestroy cuMemPoolTrimTo cuMemPoolSetAttribute cuMemPoolGetAttribute cuMemPoolSetAccess
    cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceSetMemPool cuMemPrefetchAsync cuMemPrefetchAsync_v2 cuMemAdvise
    cuMemAdvise_v2 cuMemRangeGetAttribute cuStreamBeginCapture_v2 cuStreamEndCapture cuThreadExchangeStreamCaptureMode
    cuGraphInstantiateWithFlags cuGraphLaunch cuGraphDestroy cuGraphExecDestroy cuGraphExecKernelNodeSetParams
    cuDeviceGetP2PAttribute cuDevicePrimaryCtxSetFlags_v2 cuDevicePrimaryCtxReset_v2 cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4
    cuCtxDestroy_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetId cuCtxGetFlags cuCtxGetLimit cuCtxSetLimit
    cuCtxResetPersistingL2Cache cuDeviceGetByPCIBusId cuDeviceComputeCapability cuPointerGetAttributes cuPointerSetAttribute
    cuMemGetAddressRange_v2 cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload cuLibraryGetKernel cuLibraryGetGlobal cuLibraryGetManaged cuLibraryGetModule
    cuKernelGetFunction cuKernelGetLibrary cuFuncGetModule cuKernelGetAttribute cuKernelSetAttribute cuKernelSetCacheConfig
    cuKernelGetParamInfo cuKernelGetName cuFuncGetName cuMemRangeGetAttributes cuMemPrefetchBatchAsync cuMemDiscardBatchAsync
    cuMemDiscardAndPrefetchBatchAsync cuMemPoolGetAccess cuMemGetDefaultMemPool cuMemGetMemPool cuMemSetMemPool cuStreamGetDevice
    cuStreamGetFlags cuStreamGetId cuStreamGetPriority cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3 cuGraphGetNodes
    cuGraphNodeGetType cuGraphExecUpdate_v2 cuEventRecordWithFlags cuLaunchKernelEx cuModuleGetGlobal_v2 cuLinkCreate_v2 cuLinkAddData_v2
    cuLinkAddFile_v2 cuLinkComplete cuLinkDestroy
    cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphAddNode_v2 cuGraphAddNode
    cuGraphNodeSetParams cuGraphExecNodeSetParams cuGraphConditionalHandleCreate cuGraphAddKernelNode_v2 cuGraphAddHostNode
    cuGraphAddMemAllocNode cuGraphKernelNodeGetParams_v2 cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams cuGraphHostNodeGetParams
    cuGraphMemAllocNodeGetParams cuGraphKernelNodeSetParams_v2 cuGraphMemcpyNodeSetParams cuGraphMemsetNodeSetParams
    cuGraphHostNodeSetParams cuGraphExecKernelNodeSetParams_v2 cuGraphExecHostNodeSetParams cuGraphCreate cuGraphAddEmptyNode
    cuGraphAddChildGraphNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode cuGraphAddMemFreeNode cuGraphChildGraphNodeGetGraph
    cuGraphEventWaitNodeGetEvent cuGraphEventRecordNodeGetEvent cuGraphMemFreeNodeGetParams cuGraphEventWaitNodeSetEvent
    cuGraphEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent cuGraphExecEventRecordNodeSetEvent cuGraphExecChildGraphNodeSetParams
    cuGraphGetRootNodes cuGraphGetEdges cuGraphGetEdges_v2 cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
    cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2 cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphRemoveDependencies
    cuGraphRemoveDependencies_v2 cuGraphDestroyNode cuGraphClone cuGraphNodeFindInClone cuGraphDebugDotPrint cuDeviceGetGraphMemAttribute
    cuDeviceSetGraphMemAttribute cuDeviceGraphMemTrim cuGraphInstantiateWithParams cuGraphExecGetFlags cuStreamBeginCaptureToGraph
    cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2
    cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2 cuMemcpy2DAsync_v2 cuMemcpy3D_v2 cuMemcpy3DAsync_v2
    cuUserObjectCreate cuUserObjectRetain cuUserObjectRelease cuGraphRetainUserObject cuGraphReleaseUserObject

    cuptiGetVersion cuptiActivityRegisterCallbacks cuptiActivityConfigureUnifiedMemoryCounter cuptiActivityEnable
    cuptiActivityDisable cuptiActivityFlushAll cuptiGetTimestamp cuptiActivityGetNumDroppedRecords cuptiActivityGetNextRecord
    cuptiGetResultString

    cuOccupancyAvailableDynamicSMemPerBlock
    cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
    cuOccupancyMaxPotentialClusterSize cuGraphUpload cuImportExternalMemory cuDestroyExternalMemory cuExternalMemoryGetMappedBuffer
}
