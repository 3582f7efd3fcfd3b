/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runtime: devices, contexts, memory, copies, streams, events, callbacks, notifies.  In one file, as in CANN:
 * build systems search the text of acl/acl_rt.h for function names.
 * The rules for all functions are in acl.h.
 */
#ifndef USDMA_ACL_RT_H
#define USDMA_ACL_RT_H

#include "acl_base.h"
#include "acl_rt_allocator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- flags ----------------------------------------------------------------------------------------- */

/* Event creation. */
#define ACL_EVENT_SYNC 0x00000001U                    /* streams can wait for it */
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U /* its position in the stream can be queried */
#define ACL_EVENT_TIME_LINE 0x00000008U               /* records the time when it is reached */
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010U
#define ACL_EVENT_EXTERNAL 0x00000020U
#define ACL_EVENT_IPC 0x00000040U /* other processes can open it */

#define ACL_EVENT_RECORD_DEFAULT 0x0U
#define ACL_EVENT_RECORD_EXTERNAL 0x1U
#define ACL_EVENT_WAIT_DEFAULT 0x0U
#define ACL_EVENT_WAIT_EXTERNAL 0x1U
#define ACL_IPC_EVENT_HANDLE_SIZE 64U

/* Stream creation. */
#define ACL_STREAM_FAST_LAUNCH 0x00000001U
#define ACL_STREAM_FAST_SYNC 0x00000002U
#define ACL_STREAM_PERSISTENT 0x00000004U
#define ACL_STREAM_HUGE 0x00000008U
#define ACL_STREAM_CPU_SCHEDULE 0x00000010U
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

/* aclrtValueWait: the word w against the value v. */
#define ACL_STREAM_WAIT_VALUE_GEQ 0x00000000U /* (int64_t)(w - v) >= 0 */
#define ACL_STREAM_WAIT_VALUE_EQ 0x00000001U  /* w == v */
#define ACL_STREAM_WAIT_VALUE_AND 0x00000002U /* (w & v) != 0 */
#define ACL_STREAM_WAIT_VALUE_NOR 0x00000003U /* ~(w | v) != 0 */

/* What a stream does after one of its tasks has failed. */
#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE 0x00000001U

#define ACL_NOTIFY_DEFAULT 0x00000000U
#define ACL_NOTIFY_DEVICE_USE_ONLY 0x00000001U
#define ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x02UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x02UL

#define ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL /* any process may import it */
#define ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS 0x1UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_SIO 0x0UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS 0x1UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_ONE_PORT_PATH 0x2UL
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_MULTI_PORT_PATH 0x3UL

#define ACL_RT_VMM_EXPORT_FLAG_DEFAULT 0x0UL
#define ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION 0x1UL

/* aclrtHostRegisterV2. */
#define ACL_HOST_REG_MAPPED 0x2UL
#define ACL_HOST_REG_IOMEMORY 0x4UL
#define ACL_HOST_REG_READONLY 0x8UL
#define ACL_HOST_REG_PINNED 0x10000000UL

/* aclrtCheckMemType. */
#define ACL_RT_MEM_TYPE_DEV 0x2U
#define ACL_RT_MEM_TYPE_DVPP 0x8U
#define ACL_RT_MEM_TYPE_RSVD 0x10U

#define ACL_RT_MEM_ATTACH_GLOBAL 0x1U
#define ACL_RT_MEM_LINK_IDX_0 0x0U
#define ACL_RT_MEM_LINK_IDX_1 0x1U

/* aclrtGetDevicesTopo: how two devices are connected. */
#define ACL_RT_DEVS_TOPOLOGY_HCCS 0x01ULL
#define ACL_RT_DEVS_TOPOLOGY_PIX 0x02ULL
#define ACL_RT_DEVS_TOPOLOGY_PIB 0x04ULL
#define ACL_RT_DEVS_TOPOLOGY_PHB 0x08ULL
#define ACL_RT_DEVS_TOPOLOGY_SYS 0x10ULL
#define ACL_RT_DEVS_TOPOLOGY_SIO 0x20ULL
#define ACL_RT_DEVS_TOPOLOGY_HCCS_SW 0x40ULL
#define ACL_HOST_DEVICE_CONNECT_TYPE_PCIE 0
#define ACL_HOST_DEVICE_CONNECT_TYPE_HCCS 1
#define ACL_HOST_DEVICE_CONNECT_TYPE_UB 2

#define ACL_DEV_FEATURE_SUPPORT 0x00000001
#define ACL_DEV_FEATURE_NOT_SUPPORT 0x00000000

#define ACL_RT_CMO_MAX_BARRIER_NUM 6U
#define ACL_RT_MEM_UCE_INFO_MAX_NUM 20
#define ACL_RT_MAX_RECORD_PA_NUM_PER_DEV 20U
#define MAX_MEM_UCE_INFO_ARRAY_SIZE 128
#define UCE_INFO_RESERVED_SIZE 14
#define ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY 0x0UL
#define ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE 0x1UL

/* ---- enums ----------------------------------------------------------------------------------------- */

typedef enum { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum { ACL_TS_ID_AICORE = 0, ACL_TS_ID_AIVECTOR = 1, ACL_TS_ID_RESERVED = 2 } aclrtTsId;

/* The classes of both addresses decide what a copy does; the kind must fit them. */
typedef enum {
	ACL_MEMCPY_HOST_TO_HOST = 0,
	ACL_MEMCPY_HOST_TO_DEVICE = 1,
	ACL_MEMCPY_DEVICE_TO_HOST = 2,
	ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
	ACL_MEMCPY_DEFAULT = 4,
	ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5, /* staged: the source may be reused at once */
	ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
	ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

/* Pages of device memory; the last three can be OR-ed in. */
typedef enum {
	ACL_MEM_MALLOC_HUGE_FIRST = 0,
	ACL_MEM_MALLOC_HUGE_ONLY = 1,
	ACL_MEM_MALLOC_NORMAL_ONLY = 2,
	ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
	ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
	ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
	ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
	ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
	ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
	ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
	ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000
} aclrtMemMallocPolicy;

typedef enum {
	ACL_DDR_MEM = 0,
	ACL_HBM_MEM = 1,
	ACL_DDR_MEM_HUGE = 2,
	ACL_DDR_MEM_NORMAL = 3,
	ACL_HBM_MEM_HUGE = 4,
	ACL_HBM_MEM_NORMAL = 5,
	ACL_DDR_MEM_P2P_HUGE = 6,
	ACL_DDR_MEM_P2P_NORMAL = 7,
	ACL_HBM_MEM_P2P_HUGE = 8,
	ACL_HBM_MEM_P2P_NORMAL = 9,
	ACL_HBM_MEM_HUGE1G = 10,
	ACL_HBM_MEM_P2P_HUGE1G = 11,
	ACL_MEM_NORMAL = 12,
	ACL_MEM_HUGE = 13,
	ACL_MEM_HUGE1G = 14,
	ACL_MEM_P2P_NORMAL = 15,
	ACL_MEM_P2P_HUGE = 16,
	ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;

/* The class of an address. */
typedef enum {
	ACL_MEM_LOCATION_TYPE_HOST = 0, /* pinned by the library or registered with it */
	ACL_MEM_LOCATION_TYPE_DEVICE = 1,
	ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2, /* any other memory of the process */
	ACL_MEM_LOCATION_TYPE_MANAGED = 3,
	ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;

typedef enum {
	ACL_RT_MEM_ATTR_RSV = 0,
	ACL_RT_MEM_ATTR_MODULE_ID = 1,
	ACL_RT_MEM_ATTR_DEVICE_ID = 2,
	ACL_RT_MEM_ATTR_VA_FLAG = 3
} aclrtMallocAttrType;

typedef enum {
	ACL_HOST_REGISTER_MAPPED = 0,
	ACL_HOST_REGISTER_IOMEMORY = 0x4,
	ACL_HOST_REGISTER_READONLY = 0x8
} aclrtHostRegisterType;

typedef enum { ACL_MEM_ALLOCATION_TYPE_PINNED = 0 } aclrtMemAllocationType;

typedef enum { ACL_MEM_HANDLE_TYPE_NONE = 0, ACL_MEM_HANDLE_TYPE_POSIX = 2 } aclrtMemHandleType;

typedef enum { ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2 } aclrtMemSharedHandleType;

typedef enum {
	ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
	ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 0xFFFF
} aclrtMemGranularityOptions;

typedef enum {
	ACL_RT_MEM_ACCESS_FLAGS_NONE = 0x0,
	ACL_RT_MEM_ACCESS_FLAGS_READ = 0x1,
	ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 0x3
} aclrtMemAccessFlags;

typedef enum {
	ACL_MEM_ADVISE_SET_READ_MOSTLY = 0,
	ACL_MEM_ADVISE_UNSET_READ_MOSTLY = 1,
	ACL_MEM_ADVISE_SET_PREFERRED_LOCATION = 2,
	ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 3,
	ACL_MEM_ADVISE_SET_ACCESSED_BY = 4,
	ACL_MEM_ADVISE_UNSET_ACCESSED_BY = 5
} aclrtMemManagedAdviseType;

typedef enum {
	ACL_MEM_LOCATIONTYPE_INVALID = 0,
	ACL_MEM_LOCATIONTYPE_DEVICE = 1,
	ACL_MEM_LOCATIONTYPE_HOST = 2,
	ACL_MEM_LOCATIONTYPE_HOST_NUMA = 3,
	ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT = 4
} aclrtMemManagedLocationType;

typedef enum {
	ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
	ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
	ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
	ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 4,
	ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 5,
	ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 6,
	ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,
	ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8
} aclrtMemManagedRangeAttribute;

typedef enum { ACL_RT_IPC_MEM_ATTR_ACCESS_LINK = 0 } aclrtIpcMemAttrType;

typedef enum {
	ACL_RT_MEM_ACCESS_LINK_SIO = 0,
	ACL_RT_MEM_ACCESS_LINK_HCCS = 1,
	ACL_RT_MEM_ACCESS_UB_ONE_PORT_PATH = 2,
	ACL_RT_MEM_ACCESS_UB_MULTI_PORT_PATH = 3
} aclrtMemLinkType;

typedef enum { ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED = 0, ACL_RT_HOST_MEM_MAP_SUPPORTED = 1 } aclrtHostMemMapCapability;

/* Components of a device that may access host memory. */
typedef enum {
	ACL_RT_HAC_TYPE_STARS = 0,
	ACL_RT_HAC_TYPE_AICPU = 1,
	ACL_RT_HAC_TYPE_AIC = 2,
	ACL_RT_HAC_TYPE_AIV = 3,
	ACL_RT_HAC_TYPE_PCIEDMA = 4,
	ACL_RT_HAC_TYPE_RDMA = 5,
	ACL_RT_HAC_TYPE_SDMA = 6,
	ACL_RT_HAC_TYPE_DVPP = 7,
	ACL_RT_HAC_TYPE_UDMA = 8,
	ACL_RT_HAC_TYPE_CCU = 9
} aclrtHacType;

/* aclrtQueryEvent. */
typedef enum {
	ACL_EVENT_STATUS_COMPLETE = 0,
	ACL_EVENT_STATUS_NOT_READY = 1,
	ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

/* aclrtQueryEventStatus; the values are the reverse of aclrtEventStatus. */
typedef enum {
	ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
	ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

typedef enum {
	ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
	ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
	ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF
} aclrtEventWaitStatus;

typedef enum {
	ACL_STREAM_STATUS_COMPLETE = 0,
	ACL_STREAM_STATUS_NOT_READY = 1,
	ACL_STREAM_STATUS_RESERVED = 0xFFFF
} aclrtStreamStatus;

typedef enum {
	ACL_STREAM_ATTR_FAILURE_MODE = 1,
	ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
	ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
	ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
	ACL_STREAM_ATTR_PRIORITY = 5
} aclrtStreamAttr;

typedef enum {
	ACL_RT_STREAM_WORK_ADDR_PTR = 0,
	ACL_RT_STREAM_WORK_SIZE = 1,
	ACL_RT_STREAM_FLAG = 2,
	ACL_RT_STREAM_PRIORITY = 3
} aclrtStreamConfigAttr;

typedef enum { ACL_RT_STREAM_STATE_CREATE_POST = 1, ACL_RT_STREAM_STATE_DESTROY_PRE = 2 } aclrtStreamState;

typedef enum {
	ACL_RT_DEVICE_STATE_SET_PRE = 0,
	ACL_RT_DEVICE_STATE_SET_POST = 1,
	ACL_RT_DEVICE_STATE_RESET_PRE = 2,
	ACL_RT_DEVICE_STATE_RESET_POST = 3
} aclrtDeviceState;

typedef enum {
	ACL_RT_DEVICE_STATUS_NORMAL = 0,
	ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
	ACL_RT_DEVICE_STATUS_END = 0xFFFF
} aclrtDeviceStatus;

typedef enum { ACL_RT_DEVICE_TASK_ABORT_PRE = 0, ACL_RT_DEVICE_TASK_ABORT_POST = 1 } aclrtDeviceTaskAbortStage;

typedef enum { ACL_CALLBACK_NO_BLOCK = 0, ACL_CALLBACK_BLOCK = 1 } aclrtCallbackBlockType;

typedef enum {
	ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10,
	ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
	ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
	ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13
} aclrtReduceKind;

typedef enum {
	ACL_RT_CMO_TYPE_PREFETCH = 0,
	ACL_RT_CMO_TYPE_WRITEBACK = 1,
	ACL_RT_CMO_TYPE_INVALID = 2,
	ACL_RT_CMO_TYPE_FLUSH = 3
} aclrtCmoType;

typedef enum {
	ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE = 0,
	ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE = 1,
	ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE = 2,
	ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE = 4
} aclrtCntNotifyRecordMode;

typedef enum {
	ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE = 0,
	ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE = 1,
	ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE = 2,
	ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE = 3,
	ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE = 4 /* (count & value) == value */
} aclrtCntNotifyWaitMode;

typedef enum { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;

typedef enum {
	ACL_RT_OVERFLOW_MODE_SATURATION = 0,
	ACL_RT_OVERFLOW_MODE_INFNAN = 1,
	ACL_RT_OVERFLOW_MODE_UNDEF = 2
} aclrtFloatOverflowMode;

typedef enum {
	ACL_OPT_DETERMINISTIC = 0,
	ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
	ACL_OPT_STRONG_CONSISTENCY = 2, /* deprecated */
	ACL_OPT_ENABLE_KERNEL_EARLY_START = 3
} aclSysParamOpt;

typedef enum {
	ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
	ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
	ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
	ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
	ACL_DEV_ATTR_WARP_SIZE = 202,
	ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
	ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204, /* deprecated: UBUF_PER_VECTOR_CORE */
	ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
	ACL_DEV_ATTR_MAX_GRID_DIM_X = 205,
	ACL_DEV_ATTR_MAX_GRID_DIM_Y = 206,
	ACL_DEV_ATTR_MAX_GRID_DIM_Z = 207,
	ACL_DEV_ATTR_MAX_BLOCK_PER_GRID = 208,
	ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK = 209,
	ACL_DEV_ATTR_MAX_BLOCK_DIM_X = 210,
	ACL_DEV_ATTR_MAX_BLOCK_DIM_Y = 211,
	ACL_DEV_ATTR_MAX_BLOCK_DIM_Z = 212,
	ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301, /* bytes */
	ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
	ACL_DEV_ATTR_SMP_ID = 401,
	ACL_DEV_ATTR_PHY_CHIP_ID = 402,
	ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403, /* deprecated spelling */
	ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
	ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404,
	ACL_DEV_ATTR_SUPER_POD_ID = 405,
	ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
	ACL_DEV_ATTR_MAINBOARD_ID = 407,
	ACL_DEV_ATTR_HD_CONNECT_TYPE = 408,
	ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409, /* ACL_DEVICE_FORM_FACTOR_* */
	ACL_DEV_ATTR_SUPER_POD_CHASSIS_ID = 410,
	ACL_DEV_ATTR_IS_VIRTUAL = 501,
	ACL_DEV_ATTR_NPU_ARCH = 601
} aclrtDevAttr;

#define ACL_DEVICE_FORM_FACTOR_POD 0
#define ACL_DEVICE_FORM_FACTOR_A_K 1
#define ACL_DEVICE_FORM_FACTOR_A_X 2
#define ACL_DEVICE_FORM_FACTOR_PCIE_CARD 3

typedef enum {
	ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1,
	ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21
} aclrtDevFeatureType;

typedef enum { ACL_RT_DEV_RES_CUBE_CORE = 0, ACL_RT_DEV_RES_VECTOR_CORE = 1 } aclrtDevResLimitType;

typedef enum {
	ACL_RT_NO_ERROR = 0,
	ACL_RT_ERROR_MEMORY = 1,
	ACL_RT_ERROR_L2 = 2,
	ACL_RT_ERROR_AICORE = 3,
	ACL_RT_ERROR_LINK = 4,
	ACL_RT_ERROR_L3_PORT = 5,
	ACL_RT_ERROR_OTHERS = 0xFFFF
} aclrtErrorType;

typedef enum {
	ACL_RT_AICORE_ERROR_UNKNOWN = 0,
	ACL_RT_AICORE_ERROR_SW = 1,
	ACL_RT_AICORE_ERROR_HW_LOCAL = 2
} aclrtAicoreErrorType;

typedef enum { ACL_RT_PROCESS_STATE_RUNNING = 0, ACL_RT_PROCESS_STATE_LOCKED = 1 } aclrtProcessState;

/* Groups of cores. */
typedef enum aclrtGroupAttr {
	ACL_GROUP_AICORE_INT = 0,
	ACL_GROUP_AIV_INT = 1,
	ACL_GROUP_AIC_INT = 2,
	ACL_GROUP_SDMANUM_INT = 3,
	ACL_GROUP_ASQNUM_INT = 4,
	ACL_GROUP_GROUPID_INT = 5
} aclrtGroupAttr;

typedef enum {
	ACL_RT_EQUAL = 0,
	ACL_RT_NOT_EQUAL = 1,
	ACL_RT_GREATER = 2,
	ACL_RT_GREATER_OR_EQUAL = 3,
	ACL_RT_LESS = 4,
	ACL_RT_LESS_OR_EQUAL = 5
} aclrtCondition;

typedef enum { ACL_RT_SWITCH_INT32 = 0, ACL_RT_SWITCH_INT64 = 1 } aclrtCompareDataType;

typedef enum {
	ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK = 0,
	ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS = 1,
	ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS = 2,
	ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS = 3
} aclrtRandomNumFuncType;

typedef enum { ACL_RT_UPDATE_RANDOM_TASK = 1, ACL_RT_UPDATE_AIC_AIV_TASK = 2 } aclrtUpdateTaskAttrId;

typedef enum {
	ACL_RT_SNAPSHOT_LOCK_PRE = 0,
	ACL_RT_SNAPSHOT_BACKUP_PRE = 1,
	ACL_RT_SNAPSHOT_BACKUP_POST = 2,
	ACL_RT_SNAPSHOT_RESTORE_PRE = 3,
	ACL_RT_SNAPSHOT_RESTORE_POST = 4,
	ACL_RT_SNAPSHOT_UNLOCK_POST = 5
} aclrtSnapShotStage;

typedef enum {
	ACL_FUNC_ATTR_KERNEL_TYPE = 1,
	ACL_FUNC_ATTR_KERNEL_RATIO = 2,
	ACL_FUNC_ATTR_KERNEL_SCHED_MODE = 3
} aclrtFuncAttribute;

typedef enum {
	ACL_KERNEL_TYPE_AICORE = 0,
	ACL_KERNEL_TYPE_CUBE = 1,
	ACL_KERNEL_TYPE_VECTOR = 2,
	ACL_KERNEL_TYPE_MIX = 3,
	ACL_KERNEL_TYPE_AICPU = 100
} aclrtKernelType;

typedef enum aclrtDeviceLimit {
	ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE = 0,
	ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE = 1,
	ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE = 2,
	ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE = 3,
	ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE = 4
} aclrtDeviceLimit;

/* Bits of a capability. */
typedef enum aclrtAtomicOperationCapability {
	ACL_RT_ATOMIC_CAPABILITY_SIGNED = 0x1,
	ACL_RT_ATOMIC_CAPABILITY_UNSIGNED = 0x2,
	ACL_RT_ATOMIC_CAPABILITY_REDUCATION = 0x4, /* deprecated spelling */
	ACL_RT_ATOMIC_CAPABILITY_REDUCTION = 0x4,
	ACL_RT_ATOMIC_CAPABILITY_SCALAR8 = 0x8,
	ACL_RT_ATOMIC_CAPABILITY_SCALAR16 = 0x10,
	ACL_RT_ATOMIC_CAPABILITY_SCALAR32 = 0x20,
	ACL_RT_ATOMIC_CAPABILITY_SCALAR64 = 0x40,
	ACL_RT_ATOMIC_CAPABILITY_SCALAR128 = 0x80,
	ACL_RT_ATOMIC_CAPABILITY_VECTOR32X4 = 0x100
} aclrtAtomicOperationCapability;

typedef enum aclrtAtomicOperation {
	ACL_RT_ATOMIC_OPERATION_INTEGER_ADD = 0,
	ACL_RT_ATOMIC_OPERATION_INTEGER_MIN = 1,
	ACL_RT_ATOMIC_OPERATION_INTEGER_MAX = 2,
	ACL_RT_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
	ACL_RT_ATOMIC_OPERATION_INTEGER_DECREMENT = 4,
	ACL_RT_ATOMIC_OPERATION_AND = 5,
	ACL_RT_ATOMIC_OPERATION_OR = 6,
	ACL_RT_ATOMIC_OPERATION_XOR = 7,
	ACL_RT_ATOMIC_OPERATION_EXCHANGE = 8,
	ACL_RT_ATOMIC_OPERATION_CAS = 9,
	ACL_RT_ATOMIC_OPERATION_FLOAT_ADD = 10,
	ACL_RT_ATOMIC_OPERATION_FLOAT_MIN = 11,
	ACL_RT_ATOMIC_OPERATION_FLOAT_MAX = 12,
	ACL_RT_ATOMIC_OPERATION_DMA_ADD = 30,
	ACL_RT_ATOMIC_OPERATION_DMA_MIN = 31,
	ACL_RT_ATOMIC_OPERATION_DMA_MAX = 32,
	ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_ADD = 40,
	ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MIN = 41,
	ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MAX = 42,
	ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_CAS = 43,
	ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH = 44
} aclrtAtomicOperation;

/* What a task of an instance is. */
typedef enum aclmdlRITaskType {
	ACL_MODEL_RI_TASK_DEFAULT = 0,
	ACL_MODEL_RI_TASK_KERNEL = 1,
	ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
	ACL_MODEL_RI_TASK_EVENT_WAIT = 3,
	ACL_MODEL_RI_TASK_EVENT_RESET = 4,
	ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
	ACL_MODEL_RI_TASK_VALUE_WAIT = 6
} aclmdlRITaskType;

typedef enum { ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1 } aclmdlRICondHandleFlag;

typedef enum {
	ACL_MODEL_RI_COND_TYPE_IF = 0,
	ACL_MODEL_RI_COND_TYPE_WHILE = 1,
	ACL_MODEL_RI_COND_TYPE_SWITCH = 2
} aclmdlRICondTaskType;

typedef enum aclCANNPackageName {
	ACL_PKG_NAME_CANN = 0,
	ACL_PKG_NAME_RUNTIME = 1,
	ACL_PKG_NAME_COMPILER = 2,
	ACL_PKG_NAME_HCCL = 3,
	ACL_PKG_NAME_TOOLKIT = 4,
	ACL_PKG_NAME_OPP = 5,
	ACL_PKG_NAME_OPP_KERNEL = 6,
	ACL_PKG_NAME_DRIVER = 7
} aclCANNPackageName;

/* ---- structs --------------------------------------------------------------------------------------- */

typedef struct {
	uint32_t id; /* device id, or NUMA node; ignored for HOST */
	aclrtMemLocationType type;
} aclrtMemLocation;

/* Locations of the items of a batch as the caller states them; each is checked against the addresses. */
typedef struct {
	aclrtMemLocation dstLoc;
	aclrtMemLocation srcLoc;
	uint8_t rsv[16]; /* zero */
} aclrtMemcpyBatchAttr;

typedef struct {
	aclrtMemLocation location;
	uint32_t pageSize; /* bytes */
	uint32_t rsv[4];
} aclrtPtrAttributes;

typedef union {
	uint16_t moduleId;
	uint32_t deviceId;
	uint32_t vaFlag;
	uint8_t rsv[8];
} aclrtMallocAttrValue;

typedef struct {
	aclrtMallocAttrType attr;
	aclrtMallocAttrValue value;
} aclrtMallocAttribute;

typedef struct {
	aclrtMallocAttribute *attrs;
	size_t numAttrs;
} aclrtMallocConfig;

typedef struct {
	aclrtMemHandleType handleType;         /* NONE */
	aclrtMemAllocationType allocationType; /* PINNED */
	aclrtMemAttr memAttr;
	aclrtMemLocation location;
	uint64_t reserve;
} aclrtPhysicalMemProp;

typedef struct {
	aclrtMemAccessFlags flags;
	aclrtMemLocation location;
	uint8_t rsv[12];
} aclrtMemAccessDesc;

typedef struct {
	uint8_t data[128];
} aclrtMemFabricHandle;

typedef struct {
	uint32_t sdid;
	int32_t *pid;
	size_t num;
} aclrtServerPid;

typedef struct {
	aclrtMemManagedLocationType type;
	int32_t id;
} aclrtMemManagedLocation;

typedef struct {
	char name[32];
	uint64_t curMemSize;  /* bytes in use */
	uint64_t memPeakSize; /* most bytes ever in use */
	size_t reserved[8];
} aclrtMemUsageInfo;

typedef struct {
	void *addr;
	size_t len;
	size_t reserved[14];
} aclrtMemUceInfo;

typedef struct {
	size_t arraySize;
	aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM];
} aclrtMemUceInfoArray;

typedef union {
	aclrtMemUceInfoArray uceInfo;
	aclrtAicoreErrorType aicoreErrType;
} aclrtErrorInfoDetail;

typedef struct {
	uint8_t tryRepair;
	uint8_t hasDetail;
	uint8_t reserved[2];
	aclrtErrorType errorType;
	aclrtErrorInfoDetail detail;
} aclrtErrorInfo;

typedef struct {
	void *workptr;
	size_t workSize;
	size_t flag; /* ACL_STREAM_* */
	uint32_t priority;
} aclrtStreamConfigHandle;

typedef union {
	uint64_t failureMode;
	uint32_t overflowSwitch;
	uint32_t userCustomTag;
	uint32_t cacheOpInfoSwitch;
	uint32_t streamPriority;
	uint32_t reserve[4];
} aclrtStreamAttrValue;

typedef struct {
	char reserved[ACL_IPC_EVENT_HANDLE_SIZE];
} aclrtIpcEventHandle;

typedef struct {
	int32_t cubeUtilization; /* percent; -1: unknown */
	int32_t vectorUtilization;
	int32_t aicpuUtilization;
	int32_t memoryUtilization;
	aclrtUtilizationExtendInfo *utilizationExtend; /* NULL */
} aclrtUtilizationInfo;

typedef struct {
	char bytes[16];
} aclrtUuid;

typedef struct {
	aclrtCntNotifyRecordMode mode;
	uint32_t value;
} aclrtCntNotifyRecordInfo;

typedef struct {
	aclrtCntNotifyWaitMode mode;
	uint32_t value;
	uint32_t timeout; /* seconds; 0: none */
	uint8_t isClear;  /* the wait sets the count to 0 when it completes */
	uint8_t rsv[3];
} aclrtCntNotifyWaitInfo;

typedef struct {
	aclrtCmoType cmoType;
	uint32_t barrierId;
} aclrtBarrierCmoInfo;

typedef struct {
	size_t barrierNum;
	aclrtBarrierCmoInfo cmoInfo[ACL_RT_CMO_MAX_BARRIER_NUM];
} aclrtBarrierTaskInfo;

/* An argument of kernels that is an address: offsets of it and of its data among the arguments. */
typedef struct {
	uint32_t addrOffset;
	uint32_t dataOffset;
} aclrtPlaceHolderInfo;

/* A number, or the address of one in device memory. */
typedef struct {
	uint8_t isAddr;
	uint8_t valueOrAddr[8];
	uint8_t size; /* bytes */
	uint8_t rsv[6];
} aclrtRandomParaInfo;

typedef struct {
	aclrtRandomParaInfo dropoutRation;
} aclrtDropoutBitmaskInfo;

typedef struct {
	aclrtRandomParaInfo min;
	aclrtRandomParaInfo max;
} aclrtUniformDisInfo;

typedef struct {
	aclrtRandomParaInfo mean;
	aclrtRandomParaInfo stddev;
} aclrtNormalDisInfo;

typedef struct {
	aclrtRandomNumFuncType funcType;
	union {
		aclrtDropoutBitmaskInfo dropoutBitmaskInfo;
		aclrtUniformDisInfo uniformDisInfo;
		aclrtNormalDisInfo normalDisInfo;
	} paramInfo;
} aclrtRandomNumFuncParaInfo;

typedef struct {
	aclDataType dataType;
	aclrtRandomNumFuncParaInfo randomNumFuncParaInfo;
	void *randomParaAddr;
	void *randomResultAddr;
	void *randomCounterAddr;
	aclrtRandomParaInfo randomSeed;
	aclrtRandomParaInfo randomNum;
	uint8_t rsv[8];
} aclrtRandomNumTaskInfo;

typedef struct {
	void *srcAddr;
	size_t size;
	uint32_t rsv[4];
} aclrtRandomTaskUpdateAttr;

typedef struct {
	void *binHandle;
	void *funcEntryAddr;
	void *blockDimAddr;
	uint32_t rsv[4];
} aclrtAicAivTaskUpdateAttr;

typedef union {
	aclrtRandomTaskUpdateAttr randomTaskAttr;
	aclrtAicAivTaskUpdateAttr aicAivTaskAttr;
} aclrtUpdateTaskAttrVal;

typedef struct {
	aclrtUpdateTaskAttrId id;
	aclrtUpdateTaskAttrVal val;
} aclrtTaskUpdateInfo;

typedef struct aclrtSnapShotBackupArgs {
	uint32_t backupFlags;
	char reserved[60];
} aclrtSnapShotBackupArgs;

typedef struct aclrtSnapShotRestoreArgs {
	uint32_t restoreFlags;
	char reserved[60];
} aclrtSnapShotRestoreArgs;

typedef struct aclrtAddrRange {
	void *startAddr;
	void *endAddr;
} aclrtAddrRange;

#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

/* All are text. */
typedef struct aclCANNPackageVersion {
	char version[ACL_PKG_VERSION_MAX_SIZE];
	char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
	char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
	char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
	char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
	char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

/* ---- callbacks ------------------------------------------------------------------------------------- */

typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtHostFunc)(void *args);
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *exceptionInfo);
typedef void (*aclrtOpExceptionCallback)(aclrtExceptionInfo *exceptionInfo, void *userData);
typedef void (*aclrtDeviceStateCallback)(int32_t devId, aclrtDeviceState state, void *args);
typedef void (*aclrtStreamStateCallback)(aclrtStream stream, aclrtStreamState state, void *args);
typedef int32_t (*aclrtDeviceTaskAbortCallback)(int32_t devId, aclrtDeviceTaskAbortStage stage, uint32_t timeout,
						void *args);
typedef uint32_t (*aclrtSnapShotCallBack)(int32_t devId, void *args);
typedef int (*aclrtApiFunc)(void);

/* ---- initialisation, versions, messages --------------------------------------------------------- */

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

/* Parts of the software stack that can register callbacks for aclInit and aclFinalize. */
typedef enum {
	ACL_REG_TYPE_ACL_MODEL = 0,
	ACL_REG_TYPE_ACL_OP_EXECUTOR = 1,
	ACL_REG_TYPE_ACL_OP_CBLAS = 2,
	ACL_REG_TYPE_ACL_OP_COMPILER = 3,
	ACL_REG_TYPE_ACL_TDT_CHANNEL = 4,
	ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
	ACL_REG_TYPE_ACL_DVPP = 6,
	ACL_REG_TYPE_ACL_RETR = 7,
	ACL_REG_TYPE_OTHER = 0xFFFF
} aclRegisterCallbackType;

/* Called by aclInit with the text of the configuration (len bytes, "" for none). */
typedef aclError (*aclInitCallbackFunc)(const char *configStr, size_t len, void *userData);
/* Called by the aclFinalize or aclFinalizeReference that finalises the library. */
typedef aclError (*aclFinalizeCallbackFunc)(void *userData);

/*
 * Initialises the library. configPath: a JSON file, or NULL or "" for none. Recognised members: "defaultDevice":
 * {"default_device": "N"} (for threads that set no device), "err_msg_mode": "0" (messages by thread, the default)
 * or "1" (by process). 100002: initialised already, and counted once more (aclGetRecentErrMsg has no text of that);
 * 100003: the file cannot be read; 100006: it is not a JSON object; 100000: its content differs from that of the
 * first aclInit of this process.
 */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);
/* Finalises the library, regardless of the number of aclInit calls. Devices stay set. 100037: not initialised. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);
/*
 * Drops one aclInit reference; the last one finalises. refCount (may be NULL): references left. 100037: not
 * initialised.
 */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);
/* 1, 17, 0.  100000: a pointer is NULL. */
ACL_DEPRECATED_MESSAGE("use aclsysGetVersionNum")
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);
/*
 * The version of a package ("runtime", "driver") as text; versionStr holds ACL_PKG_VERSION_MAX_SIZE bytes.
 * 100000: NULL; 100003: no such package.
 */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionStr(char *pkgName, char *versionStr);
/* The same as a number: major * 10000000 + minor * 100000 + patch * 1000.  100000: NULL; 100003: no such package. */
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);
/* As aclsysGetVersionStr for RUNTIME and DRIVER, in parts. 100000: NULL or unknown; 100003: another one. */
ACL_DEPRECATED_MESSAGE("use aclsysGetVersionStr")
ACL_FUNC_VISIBILITY aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);
/*
 * The errors of this thread since the last call, newest first, one a line; NULL if there were none. Owned by the
 * library, valid until this thread's next call of this function.
 */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);
/* Registers a callback for aclInit; called at once when initialised. 100000: callback NULL, or type unknown. */
ACL_FUNC_VISIBILITY aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc,
						     void *userData);
/* 100000: callback NULL, type unknown, or not registered. */
ACL_FUNC_VISIBILITY aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc);
/* Registers a callback for finalisation. 100000: callback NULL, or type unknown. */
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc,
							 void *userData);
/* 100000: callback NULL, type unknown, or not registered. */
ACL_FUNC_VISIBILITY aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
							   aclFinalizeCallbackFunc cbFunc);

/*
 * Devices, contexts, and the settings of both.
 * Device numbers count the devices that this process may use, from 0: those of ASCEND_RT_VISIBLE_DEVICES, whose
 * numbers must ascend, or all.  "No context" is 107002.
 */

/* ---- errors ---------------------------------------------------------------------------------------- */

/*
 * The last runtime error of this thread (argument errors 100000 do not count), without clearing it. 100000: level
 * is not ACL_RT_THREAD_LEVEL.
 */
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
/* As aclrtPeekAtLastError, and clears it. 100000: level is not ACL_RT_THREAD_LEVEL. */
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);
/* ACL_HOST: the program runs on the host. Needs no context. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* ---- devices --------------------------------------------------------------------------------------- */

/*
 * Sets the calling thread's device, opens it at its first use in the process (counted by process and device), and
 * makes its primary context current. 107001: no such device; 507033: it cannot be opened.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);
/*
 * Drops one aclrtSetDevice reference; the last one waits for the device's work, destroys its contexts and streams
 * and closes it. 107001: no such device; 507007: not set.
 */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);
/* Drops all aclrtSetDevice references. 107001: no such device; 507007: not set. */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);
/* The device of the current context.  100000: NULL; 107002: the thread has none. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);
/* Number of devices. Needs no context. 100000: NULL; 207004: none. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);
/*
 * Waits for all streams of the current context's device. 107002; a task's error, each stream's once: it stays
 * pending in the stream, whose own synchronisation returns it too.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);
/*
 * The same, at most timeout ms (-1: for ever).  107000: timeout 0 or below -1; 107002; 507046: not
 * done in time (the work goes on); a task's error.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);
/* NORMAL, or ABNORMAL once the device is lost.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);
/*
 * An attribute of the device. 100000: NULL; 107001: no such device; 107000: no such attribute; 207000: the device
 * does not have it.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);
/* ACL_DEV_FEATURE_SUPPORT or not.  100000: NULL; 107001: no such device; 107000: no such feature. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
						      int32_t *value);
/* Priorities 7 and 0; streams are not scheduled by them here. Either pointer may be NULL. Needs no context. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);
/*
 * Each is -1: not counted. 100000: NULL, or utilizationExtend is not NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);
/* The process id that peers add to their lists of allowed processes. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t *pid);
/*
 * 16 bytes that identify the device: stable for a PCI device, for a software one for the lifetime of its process.
 * 100000: NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);
/* Converts this process's device number to the machine's. 100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);
/* Converts the machine's device number to this process's. 100000: NULL; 107001: no such device, or not visible. */
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);
/* The same number, checked.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);
/* The same number, checked.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);
/* The number among all devices of the machine, and back. 100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId);
/* 100000: NULL; 107001: no such device, or not a visible one. */
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId);
/* How two devices are connected, ACL_RT_DEVS_TOPOLOGY_*. 100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t *value);
/*
 * Drops all work of the device: each stream with work is aborted as by aclrtStreamAbort. Abort callbacks run
 * before and after; timeout in ms, 0: the library's. 107001: no such device; 507007: not set; 207020: not done in
 * time (no more work starts; a host function still runs, or it took longer); 107020: a host function has been
 * running for USDMA_HANG_MS; 507000: a callback failed.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);
/*
 * callback runs before and after each aclrtSetDevice and aclrtResetDevice that opens or closes a device, in the
 * calling thread; registering the same name again replaces it, NULL removes it. 100000: regName NULL; 107000: not
 * registered.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback,
							 void *args);
/*
 * callback runs before and after each aclrtDeviceTaskAbort, in the calling thread; registering the same name again
 * replaces it, NULL removes it. If it returns non-zero, aclrtDeviceTaskAbort completes and then returns 507000.
 * 100000: regName NULL; 107000: not registered.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceTaskAbortCallback(const char *regName, aclrtDeviceTaskAbortCallback callback,
							     void *args);
/* No effect (one scheduler).  100000: no such tsId. */
ACL_FUNC_VISIBILITY aclError aclrtSetTsDevice(aclrtTsId tsId);
/*
 * How many cores kernels may use: a number that is stored and returned, at first that of the SoC's cores. 100000:
 * NULL; 107001: no such device; 107000: no such type.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);
/* 107001; 107000: no such type, or value 0 or more than the SoC's cores. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);
/* Back to the SoC's cores. 107001. */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceResLimit(int32_t deviceId);
/* That of the current device. 100000: NULL; 107000: no such type; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);
/*
 * The device's error: ACL_RT_NO_ERROR, or ACL_RT_ERROR_OTHERS once it is lost. 100000: NULL; 107001: no such
 * device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);
/*
 * The PCI address of the device as text, "0000:3d:00.0", into len bytes (at least 13). 100000: NULL or len; 107001: no
 * such device; 207000: it has none.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len);
/* The device with that address. 100000: NULL, or not an address; 107001: none has it, or it is not visible. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId);
/*
 * Which operations of a device on host memory, or on another device's, are atomic for all others: none, so each of the
 * count capabilities becomes 0. 100000: NULL or count 0; 107000: no such operation; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetHostAtomicCapabilities(uint32_t *capabilities,
								  const aclrtAtomicOperation *operations,
								  const uint32_t count, int32_t deviceId);
/* 100000: NULL or count 0; 107000: no such operation; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetP2PAtomicCapabilities(uint32_t *capabilities,
								 const aclrtAtomicOperation *operations,
								 const uint32_t count, int32_t srcDeviceId,
								 int32_t dstDeviceId);
/* Nothing to do: memory is coherent. 100000: rsv is not NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceL2CacheFlush(void *rsv);
/*
 * Uncorrectable errors of the device's memory: there are none, *retSize becomes 0. 100000: NULL or arraySize 0;
 * 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize,
						size_t *retSize);
/*
 * canCompatible: 1 if what is built for socVersion runs on the SoC that aclrtGetSocName names: all names that begin
 * with Ascend910_93 (of the profiles 910B: Ascend910B); else 0. 100000: NULL.
 */
ACL_FUNC_VISIBILITY aclError aclrtCheckArchCompatibility(const char *socVersion, int32_t *canCompatible);
/* Groups of cores: there are none. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetGroupCount(uint32_t *count);
/*
 * The limits of a stream, at first those of its device; stored and returned as aclrtSetDeviceResLimit does. 100000:
 * NULL, also the stream; 107000: no such type; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);
/* 100000: the stream is NULL; 107000: no such type, or value 0 or more than the SoC's cores; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);
/* 100000: the stream is NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtResetStreamResLimit(aclrtStream stream);
/* From now on aclrtGetResInCurrentThread gives the stream's limits in this thread. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);
/* It gives the device's again. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);
/* INFNAN: reductions give infinities and NaNs. 100000: NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);
/* INFNAN is the only mode. 100000: no such mode; 107002; 207000: SATURATION. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);

/*
 * Refused: groups and limits of cores, repair of memory, floating-point status of cores, snapshots of a process, and
 * the exchange of functions.
 */

ACL_FUNC_VISIBILITY aclError aclrtSetGroup(int32_t groupId);
ACL_FUNC_VISIBILITY aclrtGroupInfo *aclrtCreateGroupInfo(void);
ACL_FUNC_VISIBILITY aclError aclrtDestroyGroupInfo(aclrtGroupInfo *groupInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetAllGroupInfo(aclrtGroupInfo *groupInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetGroupInfoDetail(const aclrtGroupInfo *groupInfo, int32_t groupIndex,
						     aclrtGroupAttr attr, void *attrValue, size_t valueLen,
						     size_t *paramRetSize);
ACL_FUNC_VISIBILITY aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value);
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t *value);
ACL_FUNC_VISIBILITY aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);
ACL_FUNC_VISIBILITY aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);
ACL_FUNC_VISIBILITY aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtResetOverflowStatus(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetFloatOverflowAddr(void **overflowAddr);
ACL_FUNC_VISIBILITY aclError aclrtGetFloatOverflowStatus(void *outputAddr, uint64_t outputSize, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtResetFloatOverflowStatus(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtNpuGetFloatOverFlowStatus(void *outputAddr, uint64_t outputSize, uint32_t checkMode,
							    aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtGetHardwareSyncAddr(void **addr);
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointerAddrRange(aclrtAddrRange *addrRange, uint32_t *count);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessLock(int pid, void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessUnlock(int pid, void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessBackup(int pid, aclrtSnapShotBackupArgs *args);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotProcessRestore(int pid, aclrtSnapShotRestoreArgs *args);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotCallbackRegister(aclrtSnapShotStage stage, aclrtSnapShotCallBack callback,
							   void *args);
ACL_FUNC_VISIBILITY aclError aclrtSnapShotCallbackUnregister(aclrtSnapShotStage stage, aclrtSnapShotCallBack callback);
ACL_FUNC_VISIBILITY aclError aclrtApiInjectionSetFunc(const char *name, aclrtApiFunc func);
ACL_FUNC_VISIBILITY aclError aclrtApiInjectionGetFunc(const char *name, aclrtApiFunc *originFunc,
						      aclrtApiFunc *currentFunc);

/* ---- contexts -------------------------------------------------------------------------------------- */

/*
 * Creates a context with its own default stream and makes it current for this thread. Needs no aclrtSetDevice.
 * 100000: NULL; 107001: no such device; 507033: it cannot be opened.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);
/*
 * Waits for the context's streams and destroys them and the context. 100000: NULL; 107002: a device's primary
 * context, or destroyed already.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);
/* Sets this thread's current context. 100000: NULL; 107000: not a live context. */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);
/* 100000: NULL; 107002: the thread has none. */
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);
/* The stream that NULL selects.  100000: NULL; 107002: no context. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);
/*
 * active: 1 when the device is set somewhere in the process.  flags must be NULL.  100000: active NULL
 * or flags not; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);
/* Stores an option of the current context. 100000: no such option; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
/* 100000: NULL, or no such option; 107002; 107021: never set. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
/* Stores an option of the process. 100000: no such option. */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
/* 100000: NULL, or no such option; 107021: never set. */
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/*
 * Memory: device, pinned and registered host memory, virtual ranges, sharing between processes and
 * devices.
 * Device pointers are never valid for the CPU: touching one from the host faults.  They begin at
 * 0x100000000000, or elsewhere if that range is in use in the process.
 */

/* ---- device memory --------------------------------------------------------------------------------- */

/*
 * size bytes of the current device's memory, contents undefined, at least 512-byte aligned; the
 * caller's until aclrtFree.  Pages by policy.  Does not wait.  100000: NULL, size 0 or too large;
 * 107002; 207001: exhausted (devPtr is not written).
 */
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
/* As aclrtMalloc, without the 32 bytes of slack behind the block. */
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
/* As aclrtMalloc with ACL_MEM_MALLOC_NORMAL_ONLY; other policies 207000. */
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
/*
 * As aclrtMalloc; cfg (may be NULL): MODULE_ID is accepted, DEVICE_ID must name the current device.
 * 100000: as aclrtMalloc, or attrs NULL; 107000: another attribute or device.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
						aclrtMallocConfig *cfg);
/* As aclrtMallocWithCfg. */
ACL_FUNC_VISIBILITY aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
							 aclrtMallocConfig *cfg);
/*
 * Frees a block of aclrtMalloc (or aclrtMemAllocManaged).  Does not wait: work that uses it should
 * have ended; its space is reused only after work submitted before has ended.  100000: NULL; 107000: not
 * the start of a live block.
 */
ACL_FUNC_VISIBILITY aclError aclrtFree(void *devPtr);
/* Waits for the current device, then frees.  As aclrtFree, 107002, and a task's error. */
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void *devPtr);
/*
 * Free and total bytes of the current device; 0 for a pool that the device lacks. 100000: NULL; 107016: no such
 * attribute; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);
/*
 * Up to inputNum entries of memory usage by user; outputNum: number of users. 100000: NULL or inputNum 0; 107001:
 * no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
						  size_t *outputNum);
/*
 * The class of an address (any address inside a block), its device and page size.  100000: NULL;
 * 507899: a device address that is not allocated.
 */
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);
/*
 * The block that holds ptr; pbase or psize may be NULL.  100000: ptr NULL; 107000: both outputs NULL,
 * or ptr is not in a block.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);
/*
 * checkResult: 1 when all addresses are device memory of memType (ACL_RT_MEM_TYPE_*).  100000: NULL or
 * size 0; 107000: reserve or memType wrong; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult,
					       uint32_t reserve);
/* Nothing to do: device memory is coherent.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void *devPtr, size_t size);
/* Nothing to do: device memory is coherent.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void *devPtr, size_t size);

/* ---- host memory ----------------------------------------------------------------------------------- */

/*
 * size bytes of pinned host memory for asynchronous copies, at least 64-byte aligned, the caller's
 * until aclrtFreeHost.  100000: NULL or size 0; 107002; 207001: exhausted.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void **hostPtr, size_t size);
/*
 * As aclrtMallocHost; attributes MODULE_ID, and VA_FLAG 0.  100000: as there, or attrs NULL; 107000:
 * another attribute; 207000: VA_FLAG 1.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);
/* 100000: NULL; 107000: not a live block of aclrtMallocHost. */
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void *hostPtr);
/* Waits for the current device, then frees.  As aclrtFreeHost, 107002, and a task's error. */
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void *hostPtr);
/*
 * Pins the caller's memory [ptr, ptr + size) until aclrtHostUnregister; *devPtr: the address that
 * kernels would use.  Both are multiples of 4096.  Memory inside a block of aclrtMallocHost may be
 * registered too, until the block is freed.  type: MAPPED, IOMEMORY, READONLY or the last two together.
 * 100000: NULL or size 0; 207000: another type; 107002; 507899: ptr or size is not aligned; 507910:
 * overlaps a registration; 107000: not all of it is mapped readable and writable; 207001: cannot be pinned.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);
/*
 * The same with flags ACL_HOST_REG_*.  PINNED makes copies with the range asynchronous.  100000: NULL
 * or size 0; 107000: no or another flag, or not mapped so; 107002; 507899: not aligned; 507910: overlaps;
 * 207001: cannot be pinned.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);
/* 100000: NULL; 107002; 507911: not the start of a registration. */
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void *ptr);
/*
 * The device's address of registered memory (for kernels; copies take the host address).  100000: NULL
 * or flag not 0; 107002; 107000: not mapped.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);
/*
 * Whether a component of the device can access host memory: the DMA engines can. 100000: NULL; 107001: no such
 * device; 107000: no such component.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
							 aclrtHostMemMapCapability *capabilities);

/* ---- memset ---------------------------------------------------------------------------------------- */

/*
 * Stores the low 8 bits of value into count bytes of device or host memory. Returns when done. 0 for count 0;
 * 100000: NULL; 107000: count > maxCount; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
/*
 * The same, in stream order for device memory; host memory is set by the calling thread at once. As aclrtMemset,
 * and 107017, 107003 for the stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
					      aclrtStream stream);
/*
 * Stores the 32-bit value N times. Returns when done. 0 for N 0; 100000: NULL, not 4-aligned, memSize < 4 N, or
 * pageable memory; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);
/* The same, in stream order for device memory; host memory at once.  As aclrtMemsetD32, and 107017, 107003. */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
						 aclrtStream stream);

/* ---- managed memory -------------------------------------------------------------------------------- */

/* 207000: no device here migrates pages.  100000: NULL or flag not ACL_RT_MEM_ATTACH_GLOBAL; 107000: size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
						   aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location);
/* 207000.  100000: NULL, size 0, flags not 0, or no such location. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
							  aclrtMemManagedLocation location, uint32_t flags,
							  aclrtStream stream);
/* 207000.  100000: NULL, a count of 0, flags not 0, or no such location. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
							       aclrtMemManagedLocation *prefetchLocs,
							       size_t *prefetchLocIdxs, size_t numPrefetchLocs,
							       uint64_t flags, aclrtStream stream);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void *ptr,
						    size_t size, void *data, size_t dataSize);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t numAttributes,
						     const void *ptr, size_t size, void **data, size_t *dataSizes);

/* ---- virtual ranges -------------------------------------------------------------------------------- */

/*
 * Reserves size bytes of device addresses (rounded up to 2 MiB) until aclrtReleaseMemAddress; they take no
 * memory, and 32 TiB are usually possible.  expectPtr: NULL, or the address wanted.  flags 0, or 1 for huge
 * pages; alignment 0 or a power of two.  100000: NULL, size 0 or other flags; 107000: the address is
 * unavailable, alignment, or more than 256 TiB; 207001: the process has not enough addresses left. Needs no context.
 */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
						    uint64_t flags);
/* As aclrtReserveMemAddress; refused with a profile of 910B. */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t alignment,
							      void *expectPtr, uint64_t flags);
/* 100000: NULL; 107000: not the start of a reservation, or something is still mapped there. */
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void *virPtr);
/*
 * Physical memory of a device, or pinned host memory, without an address; size a multiple of the
 * granularity.  100000: NULL, size 0, flags not 0, or a property that does not fit; 107000: size;
 * 107001: no such device; 207001: exhausted.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
						 const aclrtPhysicalMemProp *prop, uint64_t flags);
/* Invalidates the handle; the memory stays until it is unmapped. 100000: NULL; 107017: not a live handle. */
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
/*
 * Maps the whole of handle at virPtr inside a reservation; offset 0.  100000: NULL, size 0, flags not
 * 0; 107000: sizes or granularity differ, not reserved, or mapped already; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
					 uint64_t flags);
/* As aclrtMapMem; copies are refused until aclrtMemSetAccess. */
ACL_FUNC_VISIBILITY aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
						 uint64_t flags);
/* 100000: NULL; 107000: not the start of a mapping. */
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void *virPtr);
/*
 * Grants READWRITE access to the locations; virPtr and size exactly as mapped. 100000: NULL or count 0; 107000:
 * not mapped, or other flags.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);
/* The access of a location. 100000: NULL; 107000: not mapped. */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);
/*
 * 2 MiB for device memory, 1 GiB for HUGE1G, the OS's page for the host's normal pages (MINIMUM). 100000: NULL, or
 * invalid prop; 207000: no such option.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
							      aclrtMemGranularityOptions option, size_t *granularity);
/*
 * Another handle of the memory mapped at virPtr; each must be freed. 100000: NULL; 107000: not the start of a
 * mapping.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);
/* 100000: NULL; 107017: not a live handle. */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
								       aclrtPhysicalMemProp *prop);
/*
 * A number with which permitted processes can import the memory. flags 0, or 1: any process of this user is
 * permitted. The export is over when this process has freed and unmapped the memory; imports stay valid, and the memory
 * counts as used until the last of them is freed too or its process has ended. 100000: NULL or type not NONE; 107000:
 * flags, or exported already; 107017; 207000: another process's memory, or a device whose memory cannot be shared.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
							     uint64_t flags, uint64_t *shareableHandle);
/*
 * The same; shareableHandle: DEFAULT: a uint64_t *; FABRIC: an aclrtMemFabricHandle *, 128 bytes that hold a random key
 * and are valid in all processes of this user on this host; with the setting net, and exported for any process, on
 * other hosts, too (docs/hosts.md). 100000: NULL; 107000: flags, no such type, DEFAULT and exported already, or FABRIC
 * and a wrong setting; FABRIC: 107002; 507899: exported already.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
							       aclrtMemSharedHandleType shareType,
							       void *shareableHandle);
/* Permits more processes to import it.  100000: NULL or 0; 107000: no such export. */
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);
/*
 * The same.  100000: NULL or 0; 107000: no such type, no such number, not a FABRIC handle, or FABRIC and all pids 0;
 * FABRIC: 107017: not exported (any more); 507899: exported by another process; 207006: exported for any process.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
							       aclrtMemSharedHandleType shareType, int32_t *pid,
							       size_t pidNum);
/*
 * Imports memory that this or another process exported, for a device; each import is freed with aclrtFreePhysical,
 * in any order with the export. 100000: NULL; 107001: no such device; 107002; 107000: no such export; 207006: this
 * process is not permitted; 207001: cannot be mapped here.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
							       aclrtDrvMemHandle *handle);
/*
 * The same, for the current device. 100000: NULL or flags not 0; 107002; 107000: no such type, no such number, or
 * not a FABRIC handle; FABRIC: 107017: nothing is exported under it (any more), its key is wrong, or its host does not
 * answer; 507899: this process is not permitted, or the hosts have different keys; 207000: of another pid namespace, or
 * of another host without the setting net.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
								 aclrtMemSharedHandleType shareType, uint64_t flags,
								 aclrtDrvMemHandle *handle);
/*
 * Nothing to map: copies between any two devices of this process work.  100000: NULL, size 0 or flags not 0;
 * 107000: not device memory; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags);
/* 207000: there is one link.  100000: NULL, size 0 or linkIdx not 0 or 1. */
ACL_FUNC_VISIBILITY aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx);
/* 207000: there is one link.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemMapSetLink(aclrtDrvMemHandle handle, aclrtMemLinkType adviceLink);

/* ---- sharing between processes --------------------------------------------------------------------- */

/*
 * A printable key (64 characters and a NUL; len at least 65) with which other processes can import [devPtr, devPtr
 * + size). flags 0, or 1: any process of this user is permitted. Freeing the memory closes the export, and gives back
 * its descriptors; imports stay valid, and the memory counts as used until they are closed. 100000: NULL; 107000: size
 * or len 0 or too small, flags, devPtr not a multiple of 4096, or not device memory of one block; 207000: another
 * process's memory, or a device whose memory cannot be shared.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);
/* Permits more processes to import it.  100000: NULL; 107000: num 0 or no such key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);
/*
 * Maps the memory of another process for the device of the thread's context; imports of a key for one device have one
 * address and are counted, another device gets its own. Unmap it with aclrtIpcMemClose. Both processes must be in one
 * pid namespace with its /proc mounted and readable: otherwise 207000, and the text says which is missing. flags 0, or
 * 1: also enable peer access. 100000: NULL; 107000: flags, or no such key; 107002; 207006: this process is not
 * permitted, or the exporter is not dumpable (setuid, a file capability) or has more capabilities, as the text says;
 * 207001: cannot be mapped here.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);
/*
 * Closes an import: of the device of the thread's context, if that has imported the key; if not, the export; and if
 * there is none, the import of another device. In a thread without a context imports are closed first, then the export.
 * 100000: NULL; 107000: no such key.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemClose(const char *key);
/* Accepted for live keys: there is one link.  100000: NULL; 107000: no such attribute or key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);
/* As aclrtIpcMemSetImportPid, for processes of this machine.  100000: NULL; 107000: num 0 or no such key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num);

/* ---- peer access ----------------------------------------------------------------------------------- */

/* 1: copies between the two devices work.  107000: NULL; 100000: the same device; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);
/*
 * Lets the current device access the peer's memory. Copies and reductions between memory of aclrtMalloc of two devices
 * need this in both directions, or answer 507899. It counts, and lasts until it is disabled as often or the process
 * exits; a reset of a device leaves it. 200006: flags not 0; 107002; 100000: the current device itself; 107001: no such
 * device.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);
/*
 * Undoes one aclrtDeviceEnablePeerAccess. 107002; 100000: the current device itself; 107001: no such device; 107000:
 * not enabled.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);
/* 1: enabled.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/*
 * Copies and reductions.
 * 0 bytes: 0 before any check; classes of addresses: see aclrtPointerGetAttributes; "the stream's
 * codes" are 107017 (not a live stream), 107002 (no context), 107003 (another context's stream).
 */

/* ---- copies ---------------------------------------------------------------------------------------- */

/*
 * Copies count bytes and returns when done; does not wait for streams.  The addresses decide the direction.
 * 100000: NULL, or kind not 0 ... 5; 107000: count > destMax, overlapping host memory, or a device
 * address that is not allocated; 107002 (not if dst is src, which is 0); 507052: the transfer failed.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
					 aclrtMemcpyKind kind);
/*
 * Copies in stream order.  With pinned host or device memory on both sides: asynchronous, and neither
 * side may be touched before the stream is synchronised.  With pageable memory: waits for the stream,
 * copies, and returns when done.  kind HOST_TO_BUF_TO_DEVICE: src is read before it returns.  100000:
 * NULL, or kind not 0 ... 5; 107000: count > destMax, a kind that does not fit the classes, or a range
 * that extends beyond its block; 507899: a device address that is not allocated, or memory of two devices
 * without access to each other (aclrtDeviceEnablePeerAccess); 207000: both sides host memory; the stream's codes.  An
 * earlier failure of the stream is left to its next synchronisation, also where the copy waits for the stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
					      aclrtMemcpyKind kind, aclrtStream stream);
/* As aclrtMemcpyAsync. */
ACL_DEPRECATED_MESSAGE("use aclrtMemcpyAsync")
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
							   aclrtMemcpyKind kind, aclrtStream stream);
/*
 * height rows of width bytes; pitches in bytes; bytes between rows are not modified.  Returns when done.
 * 100000: NULL, width > a pitch, kind not 1 ... 4; 107000: width > 5000000, height > 5242880, or kind
 * and classes do not fit; 207000: device to device; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
					   size_t height, aclrtMemcpyKind kind);
/*
 * The same in stream order, also device to device; pageable memory as in aclrtMemcpyAsync.  100000 and
 * 107000 as there, and the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
						size_t height, aclrtMemcpyKind kind, aclrtStream stream);
/*
 * numBatches (at most 4096) copies between host and device; attrs[k] gives the locations of the
 * items from attrsIndexes[k] on.  Returns when done; all items are checked before one is copied.  *failIndex: the
 * item whose location, direction or submission failed, or SIZE_MAX.  100000:
 * NULL, numBatches 0, destMaxs[i] < sizes[i], or rsv not 0; 107000: attrsIndexes are not 0 and rising,
 * more than 4096, an item's address is not where attrs says, or both sides are of one kind; 507899: an
 * item's device address is not allocated; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
					      size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
					      size_t numAttrs, size_t *failIndex);
/* The same without failIndex. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
						size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
						size_t numAttrs);
/*
 * The same in stream order, with any number of items; pageable items as in aclrtMemcpyAsync.  Items
 * before *failIndex are submitted.  As aclrtMemcpyBatch; 107000 also for an item of size 0 (unless all
 * are) or with NULL; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
						   size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
						   size_t numAttrs, size_t *failIndex, aclrtStream stream);
/* The same without failIndex. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
						     size_t numBatches, aclrtMemcpyBatchAttr *attrs,
						     size_t *attrsIndexes, size_t numAttrs, aclrtStream stream);

/* ---- descriptors ----------------------------------------------------------------------------------- */

/* Bytes of a descriptor: 32.  100000: NULL or kind above 7; 207000: kind not INNER_DEVICE_TO_DEVICE. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);
/*
 * Writes a descriptor (64-byte aligned device memory) at once.  Mind the order: source first.  config:
 * NULL.  100000: NULL, count 0, config, or kind above 7; 207000: kind not INNER_DEVICE_TO_DEVICE;
 * 107000: count > 4 GiB, desc not aligned, or the three are not memory of one device; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr,
						size_t count, void *config);
/*
 * Copies as the descriptor says when the stream reaches it: the addresses are read then.  The stream
 * must not be NULL.  100000: desc or stream NULL, or kind above 7; 207000: kind not
 * INNER_DEVICE_TO_DEVICE; 107000: desc not aligned memory of the stream's device; the stream's codes, of which
 * 107017 is before 207000.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);
/*
 * dst and src are device addresses of cells that hold base addresses; when the stream reaches it,
 * count bytes go from *src + srcDataOffset to *dst + dstDataOffset.  107000: NULL, kind not
 * INNER_DEVICE_TO_DEVICE, an offset above 2^48 - 1, or count beyond destMax - dstDataOffset; the
 * stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
							const void **src, size_t count, size_t srcDataOffset,
							aclrtMemcpyKind kind, aclrtStream stream);

/* ---- symbols --------------------------------------------------------------------------------------- */

/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyFromSymbol(void *dst, size_t dstMax, const void *symbol, size_t count,
						   size_t offset, aclrtMemcpyKind kind);
/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
						 aclrtMemcpyKind kind);
/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyFromSymbolAsync(void *dst, size_t dstMax, const void *symbol, size_t count,
							size_t offset, aclrtMemcpyKind kind, aclrtStream stream);
/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
						      aclrtMemcpyKind kind, aclrtStream stream);

/* ---- reduction ------------------------------------------------------------------------------------- */

/*
 * dst[i] = op(dst[i], src[i]) over count BYTES of device memory, in stream order.  100000: NULL,
 * reserve not NULL, or type; 107000: count 0 or not whole elements, kind, SUM of more than 4 GiB, or
 * not device memory; 207000: the device lacks the type or the operation; 107008: not aligned to the
 * element; 507899: memory of two devices without access to each other; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind,
					      aclDataType type, aclrtStream stream, void *reserve);

/*
 * Streams.
 * Work of one stream runs in the order of submission; streams are unordered among each other; a
 * task's error is returned by the next synchronisation of its stream; "107017" is a handle that is
 * not a live stream's.
 */

/* ---- streams --------------------------------------------------------------------------------------- */

/*
 * Creates a stream on the current context's device, the caller's until aclrtDestroyStream. 100000: NULL; 107002;
 * 207008: none left.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream *stream);
/*
 * The same. priority: values above 7 count as 7; aclrtStreamGetPriority returns it. flag: ACL_STREAM_*, unknown bits
 * are ignored. 100000: NULL; 107002; 207008.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);
/* The same from a configuration; NULL: the defaults.  100000: stream NULL; 107002; 207008. */
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle);
/* A configuration with the defaults, the caller's until aclrtDestroyStreamConfigHandle.  NULL: no host memory. */
ACL_FUNC_VISIBILITY aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);
/* 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle);
/*
 * FLAG: 4 or 8 bytes; PRIORITY: 4 bytes, 0 ... 7 (see above); WORK_ADDR_PTR and WORK_SIZE: 8 bytes.  100000: NULL,
 * attribute, size or value wrong.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr,
						     const void *attrValue, size_t valueSize);
/*
 * Waits for its work. 100000: NULL; 107017; 107003: another context's; 107000: a default stream. Also returns the
 * first failure of its work that no synchronisation has returned: the stream is destroyed nevertheless.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);
/*
 * Drops its work. When it returns, none of its host functions and callbacks runs or will start (except the one
 * that makes this call). Codes as aclrtDestroyStream; 107020: one has been running for USDMA_HANG_MS.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);
/* Waits for its work; NULL: the default stream.  107017; 107002; the first error of its tasks; 107023: aborted. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);
/*
 * At most timeout ms (-1: for ever).  107000: timeout 0 or below -1; 107017; 107002; 507046: not done
 * in time (the work goes on); a task's error.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
/* COMPLETE or NOT_READY; does not wait and takes no error.  100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);
/* A small integer, unique among live streams. 100000: NULL; 107017; 107002: stream NULL, and no context. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);
/* As given at creation or as attribute. 100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);
/* As given at creation.  100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);
/* How many more streams can be created: 65536 at most, 1984 with a profile. 100000: NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAvailableNum(uint32_t *streamCount);
/*
 * Bit 0: the first failed task of a stream stops all streams of the context, which accept no work from then on: the
 * mode of all of them.  107017; 107003; 107002; 207000: from stop back to continue.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
/* 100000: value NULL; 107000: no such attribute, or FAILURE_MODE of the default stream; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
						     aclrtStreamAttrValue *value);
/* 100000: value NULL; 107000: no such attribute; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
						     aclrtStreamAttrValue *value);
/*
 * Stops the running work and drops the rest; from then on the stream's calls return 107023 until it is destroyed.
 * When it returns, none of its host functions and callbacks runs or will start (except the one that makes this
 * call). 107017; 107003; 107020: one has been running for USDMA_HANG_MS.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamAbort(aclrtStream stream);
/* As aclrtStreamAbort. 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtStreamStop(aclrtStream stream);
/* For ACL_STREAM_PERSISTENT streams. 207000: streams retain no tasks here. 107017. */
ACL_FUNC_VISIBILITY aclError aclrtPersistentTaskClean(aclrtStream stream);
/* 207000: streams are never inactive here.  100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);
/*
 * callback runs after a stream was created and before one is destroyed, in the calling thread; registering the
 * same name again replaces it, NULL removes it. 100000: regName NULL; 107000: not registered.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegStreamStateCallback(const char *regName, aclrtStreamStateCallback callback,
							 void *args);
/*
 * The number of this thread's last task in its stream, from 1; tasks of all threads count. A batch is as many tasks as
 * it has items. While others submit to that stream, it may be a later task's.  100000: NULL; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetThreadLastTaskId(uint32_t *taskId);
/* 207000: no arithmetic here overflows.  107017. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
/* 0: off.  100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);
/* Timeout in seconds of later waits for events and notifies without their own; 0: none. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);
/*
 * How long an operator may run: a number that is stored and returned, no operator runs here. In seconds, milliseconds,
 * and microseconds; it is rounded up to a whole interval, and V2 stores the result in *actualTimeout.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);
/* 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);
/* That interval: 1000 microseconds. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetOpTimeOutInterval(uint64_t *interval);
/* In milliseconds; 0: none has been set. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/*
 * Events.
 * Three kinds: Default (aclrtCreateEvent), Flag (aclrtCreateEventWithFlag), Ex
 * (aclrtCreateEventExWithFlag); they differ in what "never recorded" means; 107017 is a handle
 * that is not a live event's.
 */

/* ---- events ---------------------------------------------------------------------------------------- */

/* Creates a Default event, with SYNC and TIME_LINE. 100000: NULL; 107002; 207007: none left. */
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent *event);
/*
 * Creates a Flag event: ACL_EVENT_* bits. 100000: NULL; 107000: no or unknown bits, or a bit that cannot be
 * combined with others; 107002; 207007.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
/* Creates an Ex event: SYNC, CAPTURE_STREAM_PROGRESS, TIME_LINE, or IPC alone. Codes as aclrtCreateEventWithFlag. */
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);
/* The handle is invalid at once; pending waits for the event still complete. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);
/*
 * The event is reached when all work submitted to the stream so far has ended; replaces an earlier
 * record.  100000: event NULL; 107017; 107003; 107002; 107000: DEVICE_USE_ONLY, or the stream is another device's.
 */
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
/*
 * The same. flag EXTERNAL, in a capture only: each execution records the event itself. 100000: event NULL or flag
 * above 1; EXTERNAL: 107029: the stream is not being captured; 207000: not an Ex event with SYNC; 107000: the capture
 * has used the event otherwise.
 */
ACL_FUNC_VISIBILITY aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);
/* Makes the event never recorded, in stream order. 100000: event NULL; 107017; 107003; 107000:
 * DEVICE_USE_ONLY; 207000: Ex, or no SYNC. */
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
/*
 * COMPLETE (also when never recorded) or NOT_READY.  100000: NULL; 107017; 207000: Ex. A failure that has stopped the
 * event's context (aclrtSetStreamFailureMode) is what this and the next three return of every event.
 */
ACL_DEPRECATED_MESSAGE("use aclrtQueryEventStatus")
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
/* COMPLETE (1) or NOT_READY (0).  Never recorded: Ex COMPLETE, others NOT_READY.  100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
/* COMPLETE when no wait for it is pending.  100000: NULL; 107017; 207000: Ex; the failure of the thread's context. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);
/*
 * Waits until it is reached; 0 at once when never recorded.  100000: NULL; 107017; an error of the
 * stream that it was recorded on, which stays pending there.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);
/*
 * At most timeout ms (-1: for ever).  100000: NULL; 107000: timeout 0 or below -1; 107017; 507047: not
 * in time; an error of the stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);
/*
 * Milliseconds from start to end, resolution about 1 us; may be negative.  100000: NULL; 107017;
 * 507000: never recorded; 107006: not reached yet, without TIME_LINE, or no time was taken, as its
 * stream was aborted or stopped at a failure; 207000: IPC or EXTERNAL.
 */
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);
/* Microseconds on the device's clock.  Codes as aclrtEventElapsedTime. */
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);
/*
 * Work submitted to the stream from now on waits for the event's latest record, also of another
 * device.  Never recorded: Default 107000, Flag waits for the next record, Ex does nothing.  100000:
 * event NULL; 107017; 107003; 107000: DEVICE_USE_ONLY; 207000: no SYNC.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
/*
 * The same; timeout in seconds, 0: for ever; expiry is an error of the stream.  107000: timeout below
 * 0; as aclrtStreamWaitEvent.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);
/*
 * The same. flag EXTERNAL, in a capture only: each execution waits for the event itself. 100000: event NULL, flag
 * above 1, or EXTERNAL and timeout not 0; EXTERNAL: 107029: the stream is not being captured; 207000: not an Ex event
 * with SYNC; 107000: the capture has used the event otherwise.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
							  uint32_t flag);
/* A small integer. 100000: NULL; 107017; 207000: IPC or EXTERNAL. */
ACL_FUNC_VISIBILITY aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);
/* How many more events can be created. 100000: NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetEventAvailNum(uint32_t *eventCount);
/*
 * A 64-byte handle with which another process opens the event. 100000: NULL; 107017; 107000: not an Ex event with
 * ACL_EVENT_IPC.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);
/* Opens an event of another process, to record, wait for, query and destroy. 100000: NULL; 107000: no such event. */
ACL_FUNC_VISIBILITY aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/*
 * Callbacks, words that streams write and wait for, notifies, cache operations.
 * Callbacks must not call functions of this library that wait, allocate or submit.
 */

/* ---- callbacks ------------------------------------------------------------------------------------- */

/*
 * Makes the stream's callbacks run in aclrtProcessReport of thread threadId (its pthread_self()). 107017; 107003;
 * 107011: subscribed already; 107012: the thread serves another device.
 */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
/* 107017; 107003; 107011: not subscribed; 107012: to another thread. */
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);
/*
 * Waits at most timeout ms (-1: for ever) for a callback of this thread's streams and runs all that are ready.
 * 100000: timeout 0 or below -1; 107012: the thread is not subscribed; 507012: none in time.
 */
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);
/*
 * Runs fn(userData) in the subscribed thread when all work before has ended; BLOCK: the stream continues after fn
 * has returned. 100000: blockType; 107000: fn NULL; 107017; 107003; 107015: no thread is subscribed.
 */
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
						 aclrtStream stream);
/*
 * Runs fn(args) in the library's thread for this context when all work before has ended; the stream continues
 * after fn has returned. 107000: fn NULL; 107017; 107003.
 *
 * Within a function that a stream waits for (this call's, or BLOCK) calls return 207000 if they would wait for
 * that stream, for one that waits for it by an event, or for another function of the same thread: to synchronise
 * or destroy the stream, an event after the function, the context, the device; a copy of pageable memory in the
 * stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);
/* As aclrtSubscribeReport, for functions of aclrtLaunchHostFunc: they run in aclrtProcessHostFunc of that thread. */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);
/* As aclrtProcessReport, for functions of aclrtLaunchHostFunc. */
ACL_FUNC_VISIBILITY aclError aclrtProcessHostFunc(int32_t timeout);
/* As aclrtUnSubscribeReport, for functions of aclrtLaunchHostFunc. */
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);
/* ---- failed tasks ---------------------------------------------------------------------------------- */

/*
 * callback runs each time that a synchronisation of a stream, an event or the device, or aclrtMemcpyAsync of ordinary
 * memory, returns the error of a failed task (but 107023), just before it returns. It may destroy what was
 * synchronised, and reset the device. NULL: none. The information is the library's, and valid until the callback
 * returns.
 */
ACL_DEPRECATED_MESSAGE("use aclrtExceptionInfoCallbackRegister")
ACL_FUNC_VISIBILITY aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);
/*
 * Adds a callback to that one: they run in the order of their registration, up to 16, each once however often it was
 * registered. 107000: NULL; 207005: there are 16.
 */
ACL_FUNC_VISIBILITY aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback);
/* A call that has begun may still be running. 0 also if it is not registered. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback);
/*
 * What failed: the task's number in its stream, as aclrtGetThreadLastTaskId after it. 0xFFFFFFFF: info is NULL, or it
 * cannot be said (a lost device).
 */
ACL_FUNC_VISIBILITY uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info);
/* The stream of that task, as aclrtStreamGetId. */
ACL_FUNC_VISIBILITY uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info);
/* The thread that synchronised, as gettid(2). */
ACL_FUNC_VISIBILITY uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info);
/* The device of that thread's context. */
ACL_FUNC_VISIBILITY uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info);
/* The code that the synchronisation returns. */
ACL_FUNC_VISIBILITY uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info);

/* Refused: a copy has no kernel and no arguments. */

ACL_FUNC_VISIBILITY aclError aclrtGetArgsFromExceptionInfo(const aclrtExceptionInfo *info, void **devArgsPtr,
							   uint32_t *devArgsLen);
ACL_FUNC_VISIBILITY aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info, aclrtFuncHandle *func);
ACL_FUNC_VISIBILITY aclError aclrtBinarySetExceptionCallback(aclrtBinHandle binHandle,
							     aclrtOpExceptionCallback callback, void *userData);

/* ---- words ----------------------------------------------------------------------------------------- */

/*
 * Stores a 64-bit value in device memory, in stream order; devAddr 8-byte aligned.  100000: NULL;
 * 107000: flag not 0, not device memory, not aligned; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);
/*
 * The stream waits until the 64-bit word compares (ACL_STREAM_WAIT_VALUE_*), without a timeout. 100000: NULL;
 * 107000: flag above 3, not device memory, not aligned; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/* ---- notifies -------------------------------------------------------------------------------------- */

/*
 * Creates a flag of the current device that one stream sets and another waits for. 100000: NULL; 107000: flag
 * above 1; 107002; 207009: none left.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);
/* 100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyNotify(aclrtNotify notify);
/* Sets it, in stream order.  100000: NULL; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);
/*
 * Waits until it is set and clears it, in stream order; timeout in seconds, 0 and 0xFFFFFFFF: for
 * ever; expiry is an error of the stream (107020).  100000: NULL; 107017; 107003; 107000: an imported
 * one.
 */
ACL_FUNC_VISIBILITY aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);
/* 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);
/* Clears them at once.  100000: NULL; 107000: num 0; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);
/*
 * A printable key (len at least 65) with which another process can record it. flags 0, or
 * ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION. 100000: NULL; 107000: len or flags; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);
/* Permits more processes to import it. 100000: NULL; 107000: num 0, or not exported; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);
/* The same for each of num lists; sdid is ignored: there is one server. 100000: NULL; 107000: as there; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPidInterServer(aclrtNotify notify, aclrtServerPid *serverPids,
								size_t num);
/*
 * Opens a notify of another process, to record and destroy. 100000: NULL; 107000: flags or no such key; 207006:
 * this process is not permitted; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);
/*
 * Creates a counter of the current device that streams change and wait for. 100000: NULL; 107000: flag above 1;
 * 107002; 207009.
 */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);
/* 100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);
/* Changes the count as info says, in stream order.  100000: NULL; 107000: mode; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
						  aclrtCntNotifyRecordInfo *info);
/*
 * Waits until the count compares, in stream order.  100000: NULL; 107000: mode; 107017; 107003; expiry
 * is an error of the stream (107020).
 */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
							   aclrtCntNotifyWaitInfo *info);
/* Sets the count to 0, in stream order. 100000: NULL; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);
/* 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* ---- cache ----------------------------------------------------------------------------------------- */

/* A hint; nothing to do: memory is coherent.  100000: NULL or size 0; 107000: cmoType; the stream's codes. */
ACL_FUNC_VISIBILITY aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);
/* 207000: there are no barriers.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId,
						      aclrtStream stream);
/* 207000: there are no barriers.  100000: NULL, or no or more than ACL_RT_CMO_MAX_BARRIER_NUM barriers. */
ACL_FUNC_VISIBILITY aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag);

/*
 * Refused: cache operations by descriptor, random numbers, updates of tasks, labels, conditions between streams, chains
 * of buffers.
 */

ACL_FUNC_VISIBILITY aclError aclrtCmoGetDescSize(size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream,
						   const void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtRandomNumAsync(const aclrtRandomNumTaskInfo *taskInfo, const aclrtStream stream,
						 void *reserve);
ACL_FUNC_VISIBILITY aclError aclrtTaskUpdateAsync(aclrtStream taskStream, uint32_t taskId, aclrtTaskUpdateInfo *info,
						  aclrtStream execStream);
ACL_FUNC_VISIBILITY aclError aclrtCreateLabel(aclrtLabel *label);
ACL_FUNC_VISIBILITY aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabel(aclrtLabel label);
ACL_FUNC_VISIBILITY aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num, aclrtLabelList *labelList);
ACL_FUNC_VISIBILITY aclError aclrtDestroyLabelList(aclrtLabelList labelList);
ACL_FUNC_VISIBILITY aclError aclrtSwitchLabelByIndex(void *ptr, uint32_t maxValue, aclrtLabelList labelList,
						     aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtSwitchStream(void *leftValue, aclrtCondition cond, void *rightValue,
					       aclrtCompareDataType dataType, aclrtStream trueStream,
					       aclrtStream falseStream, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtAllocBuf(aclrtMbuf *buf, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeBuf(aclrtMbuf buf);
ACL_FUNC_VISIBILITY aclError aclrtGetBufData(const aclrtMbuf buf, void **dataPtr, size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtSetBufDataLen(aclrtMbuf buf, size_t len);
ACL_FUNC_VISIBILITY aclError aclrtGetBufDataLen(aclrtMbuf buf, size_t *len);
ACL_FUNC_VISIBILITY aclError aclrtGetBufUserData(const aclrtMbuf buf, void *dataPtr, size_t size, size_t offset);
ACL_FUNC_VISIBILITY aclError aclrtSetBufUserData(aclrtMbuf buf, const void *dataPtr, size_t size, size_t offset);
ACL_FUNC_VISIBILITY aclError aclrtCopyBufRef(const aclrtMbuf buf, aclrtMbuf *newBuf);
ACL_FUNC_VISIBILITY aclError aclrtAppendBufChain(aclrtMbuf headBuf, aclrtMbuf buf);
ACL_FUNC_VISIBILITY aclError aclrtGetBufChainNum(aclrtMbuf headBuf, uint32_t *num);
ACL_FUNC_VISIBILITY aclError aclrtGetBufFromChain(aclrtMbuf headBuf, uint32_t index, aclrtMbuf *buf);

/* ---- kernels --------------------------------------------------------------------------------------- */

/*
 * A copy engine runs none. Programs with these calls link and start; a call answers 207000.
 */
#define ACL_RT_BINARY_MAGIC_ELF_AICORE 0x43554245U
#define ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE 0x41415246U
#define ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE 0x41494343U

typedef enum aclrtBinaryLoadOptionType {
	ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
	ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2,
	ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
	ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3
} aclrtBinaryLoadOptionType;

typedef union aclrtBinaryLoadOptionValue {
	uint32_t isLazyLoad;
	uint32_t magic;
	int32_t cpuKernelMode;
	uint32_t rsv[4];
} aclrtBinaryLoadOptionValue;

typedef struct {
	aclrtBinaryLoadOptionType type;
	aclrtBinaryLoadOptionValue value;
} aclrtBinaryLoadOption;

typedef struct aclrtBinaryLoadOptions {
	aclrtBinaryLoadOption *options;
	size_t numOpt;
} aclrtBinaryLoadOptions;

typedef enum { ACL_RT_ENGINE_TYPE_AIC = 0, ACL_RT_ENGINE_TYPE_AIV = 1 } aclrtEngineType;

typedef enum aclrtLaunchKernelAttrId {
	ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE = 1,
	ACL_RT_LAUNCH_KERNEL_ATTR_LOCAL_MEMORY_SIZE = 2, /* deprecated: DYN_UBUF_SIZE */
	ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE = 2,
	ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE = 3,
	ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET = 4,
	ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH = 5,
	ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP = 6,
	ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT = 7,    /* seconds */
	ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US = 8, /* not with TIMEOUT */
	ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING = 9
} aclrtLaunchKernelAttrId;

typedef struct {
	uint32_t timeoutLow;
	uint32_t timeoutHigh;
} aclrtTimeoutUs;

typedef union aclrtLaunchKernelAttrValue {
	uint8_t schemMode;
	uint32_t localMemorySize;
	uint32_t dynUBufSize;
	aclrtEngineType engineType;
	uint32_t blockDimOffset;
	uint8_t isBlockTaskPrefetch;
	uint8_t isDataDump;
	uint16_t timeout;
	aclrtTimeoutUs timeoutUs;
	uint8_t enableProfiling;
	uint32_t rsv[4];
} aclrtLaunchKernelAttrValue;

typedef struct aclrtLaunchKernelAttr {
	aclrtLaunchKernelAttrId id;
	aclrtLaunchKernelAttrValue value;
} aclrtLaunchKernelAttr;

typedef struct aclrtLaunchKernelCfg {
	aclrtLaunchKernelAttr *attrs;
	size_t numAttrs;
} aclrtLaunchKernelCfg;

/* A size in three dimensions, 1 by default. */
#ifndef __BISHENG_CCEC__
typedef struct dim3 {
	uint32_t x;
	uint32_t y;
	uint32_t z;
#ifdef __cplusplus
	constexpr dim3(uint32_t vx = 1, uint32_t vy = 1, uint32_t vz = 1) : x(vx), y(vy), z(vz) {}
#endif
} dim3;
#endif

/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *options,
						     aclrtBinHandle *binHandle);
/* 207000.  100000: NULL or length 0. */
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromData(const void *data, size_t length,
						     const aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName,
						    aclrtFuncHandle *funcHandle);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle);
/* 207000.  100000: NULL or paramSize 0. */
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void *param, size_t paramSize,
						   aclrtParamHandle *paramHandle);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernel(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData,
					       size_t argsSize, aclrtStream stream);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelV2(aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData,
						 size_t argsSize, aclrtLaunchKernelCfg *cfg, aclrtStream stream);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t numBlocks,
							 aclrtStream stream, aclrtLaunchKernelCfg *cfg,
							 aclrtArgsHandle argsHandle, void *reserve);

/* Refused, whatever the arguments: the other calls of kernels, binaries and symbols, and their traces. */

ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks,
							   aclrtStream stream, aclrtLaunchKernelCfg *cfg,
							   void *hostArgs, size_t argsSize,
							   aclrtPlaceHolderInfo *placeHolderArray,
							   size_t placeHolderNum);
ACL_FUNC_VISIBILITY aclError aclrtLaunchKernelWithArgsArray(void *func, uint32_t numBlocks, aclrtStream stream,
							    aclrtLaunchKernelCfg *cfg, void **args);
ACL_FUNC_VISIBILITY aclError aclrtLaunchSIMTKernelWithArgsArray(void *func, dim3 gridDim, dim3 blockDim,
								size_t dynUbufSize, aclrtStream stream,
								aclrtLaunchKernelCfg *cfg, void **args);
ACL_FUNC_VISIBILITY aclError aclrtLaunchSIMTKernelWithHostArgs(void *func, dim3 gridDim, dim3 blockDim,
							       size_t dynUbufSize, aclrtStream stream,
							       aclrtLaunchKernelCfg *cfg, void *hostArgs,
							       size_t argsSize, aclrtPlaceHolderInfo *placeHolderArray,
							       size_t placeHolderNum);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsGetHandleMemSize(aclrtFuncHandle funcHandle, size_t *memSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsGetMemSize(aclrtFuncHandle funcHandle, size_t userArgsSize,
						       size_t *actualArgsSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsInitByUserMem(aclrtFuncHandle funcHandle, aclrtArgsHandle argsHandle,
							  void *userHostMem, size_t actualArgsSize);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsAppendPlaceHolder(aclrtArgsHandle argsHandle,
							      aclrtParamHandle *paramHandle);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsGetPlaceHolderBuffer(aclrtArgsHandle argsHandle,
								 aclrtParamHandle paramHandle, size_t dataSize,
								 void **bufferAddr);
ACL_FUNC_VISIBILITY aclError aclrtKernelArgsParaUpdate(aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle,
						       void *param, size_t paramSize);
ACL_FUNC_VISIBILITY aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen);
ACL_FUNC_VISIBILITY aclError aclrtDestroyBinary(aclrtBinary binary);
ACL_FUNC_VISIBILITY aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetDevAddress(const aclrtBinHandle binHandle, void **binAddr, size_t *binSize);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunctionByEntry(aclrtBinHandle binHandle, uint64_t funcEntry,
							   aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunctionCount(aclrtBinHandle binHandle, uint32_t *count);
ACL_FUNC_VISIBILITY aclError aclrtBinaryEnumerateFunctions(const aclrtBinHandle binHandle, aclrtFuncHandle *funcHandles,
							   uint32_t numFunctions);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetGlobal(aclrtBinHandle binHandle, const char *name, void **dptr,
						  size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtRegisterCpuFunc(const aclrtBinHandle handle, const char *funcName,
						  const char *kernelName, aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtGetFuncBySymbol(const void *symbol, aclrtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionSize(aclrtFuncHandle funcHandle, size_t *aicSize, size_t *aivSize);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char *name);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAttribute(aclrtFuncHandle funcHandle, aclrtFuncAttribute attrType,
						       int64_t *attrValue);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetBinary(const aclrtFuncHandle funcHandle, aclrtBinHandle *binHandle);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetParamCount(const void *func, size_t *paramCount);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
						       size_t *paramSize);
ACL_FUNC_VISIBILITY aclError aclrtFunctionGetAvailDynUbufPerBlock(void *func, uint32_t flags, size_t *dynamicUbufSize);
ACL_FUNC_VISIBILITY aclError aclrtGetSymbolAddress(const void *symbol, void **devPtr);
ACL_FUNC_VISIBILITY aclError aclrtGetSymbolSize(const void *symbol, size_t *size);
ACL_FUNC_VISIBILITY aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtCacheLastTaskOpInfo(const void *const infoPtr, const size_t infoSize);
ACL_FUNC_VISIBILITY aclError aclrtCacheLastTaskExtendInfo(const char *const extendInfoPtr, const size_t infoSize);

/* ---- capture -------------------------------------------------------------------------------------- */

/*
 * Capture: from aclmdlRICaptureBegin to aclmdlRICaptureEnd the work that is submitted to a stream is recorded in an
 * instance (aclmdlRI) and not executed; aclmdlRIExecuteAsync executes it, as often as wanted. Recorded are copies of
 * pinned and device memory, fills, reductions, value writes and waits, notifies, host functions, callbacks, and
 * records and waits of events of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC. A stream that waits for an event
 * of the capture joins it; its last work must be the record of an event that a stream of the capture waits for.
 * Events made with ACL_EVENT_EXTERNAL, and records and waits with the flag EXTERNAL, order each execution with other
 * work. Addresses, sizes, values and functions are those of the capture, the contents of memory those of the
 * execution; the caller keeps all of them valid.
 *
 * What a capture forbids is refused, and the capture continues: a synchronous call 107030, a copy of ordinary memory
 * 107000 or 107041, waiting for, querying or destroying a stream that is captured 107027, an event that is captured
 * 107028, a wait for an event that was recorded before 107024, a wait of the default stream 107031, a copy in a task
 * group 507009. It is invalidated by a wait for an event of another capture (107032), by work in a stream while
 * another one has an open task group (107034), and by lack of memory.
 */

/*
 * Begins a capture. mode: in which threads aclrtMemcpy, aclrtMemcpy2d, aclrtMemset and copies of ordinary memory in
 * other streams are forbidden meanwhile: GLOBAL, in all of this context; THREAD_LOCAL, in this one; RELAXED, in none
 * (see aclmdlRICaptureThreadExchangeMode). 107000: mode is unknown; 107027: the stream is captured already; 207000:
 * the default stream; 507000: made with ACL_STREAM_CPU_SCHEDULE or ACL_STREAM_DEVICE_USE_ONLY.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
/*
 * Whether a stream is captured, and the instance that aclmdlRICaptureEnd will return (NULL: it is not). One of the
 * pointers may be NULL. INVALIDATED: the capture has failed. The thread needs no context.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
						    aclmdlRI *modelRI);
/*
 * The end of the capture that was begun in this stream. 107029: the stream is not captured; 107036: it joined the
 * capture, which continues. After any other failure the capture is over: 107025: a stream that joined has not come
 * back; 107033: a task group is open; 107038: called by another thread, and the mode is not RELAXED; 507903: an earlier
 * error has invalidated it.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);
/*
 * Sets the calling thread's mode and returns the one before in *mode. GLOBAL (the default): captures of all threads
 * count for it; THREAD_LOCAL: only its own; RELAXED: none. 107000: *mode is unknown.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);
/*
 * Executes an instance in any stream of its context (NULL: the default stream), ordered as any other work there.
 * Task errors are the stream's. 107004: the instance belongs to another context; 107026: still being captured; 107027:
 * the stream is being captured; 507011: the capture failed; 507899: memory was freed since the capture.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);
/* For instances that were built, which there are none of: 107000 for captured ones. */
ACL_FUNC_VISIBILITY aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);
/*
 * Waits until its executions have ended, calls the functions registered for that, and destroys it. 107004: it belongs
 * to another context; 107026: still being captured; 107037: an execution has not ended within 10 s.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroy(aclmdlRI modelRI);
/* func is called by aclmdlRIDestroy. */
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData);
/* 107000: func is not registered. */
ACL_FUNC_VISIBILITY aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func);
/*
 * Task groups are for kernels, so a group stays empty here. 107029: the stream is not captured; 107033: a group is open
 * already, or none is.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);
/* 107027: the stream is being captured; 107033: the group or the stream is in an update already, or in none. */
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);
/* The name of an instance, at most 127 bytes; "" at first. 100000: NULL; 107000: too long; 107017. */
ACL_FUNC_VISIBILITY aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);
/* Into maxLen bytes. 100000: NULL or maxLen 0; 107000: the name does not fit; 107017. */
ACL_FUNC_VISIBILITY aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);
/* A number that no other instance of this process has. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);

/* The parameters of a task of an instance. */
typedef struct aclmdlRIKernelTaskParams {
	aclrtFuncHandle funcHandle;
	aclrtLaunchKernelCfg *cfg;
	void *args;
	uint32_t isHostArgs;
	size_t argsSize;
	uint32_t numBlocks;
	uint32_t rsv[10];
} aclmdlRIKernelTaskParams;

typedef struct aclmdlRIEventRecordTaskParams {
	aclrtEvent event;
	uint32_t eventFlag;
	uint32_t recordFlag;
} aclmdlRIEventRecordTaskParams;

typedef struct aclmdlRIEventWaitTaskParams {
	aclrtEvent event;
	uint32_t eventFlag;
	uint32_t waitFlag;
} aclmdlRIEventWaitTaskParams;

typedef struct aclmdlRIEventResetTaskParams {
	aclrtEvent event;
	uint32_t eventFlag;
	uint32_t resetFlag;
} aclmdlRIEventResetTaskParams;

typedef struct aclmdlRIValueWriteTaskParams {
	void *devAddr;
	uint64_t value;
} aclmdlRIValueWriteTaskParams;

typedef struct aclmdlRIValueWaitTaskParams {
	void *devAddr;
	uint64_t value;
	uint32_t flag;
} aclmdlRIValueWaitTaskParams;

typedef struct aclmdlRITaskParams {
	aclmdlRITaskType type;
	uint32_t rsv0[3];
	aclrtTaskGrp taskGrp;
	void *opInfoPtr;
	size_t opInfoSize;
	uint8_t rsv1[32];
	union {
		uint8_t rsv2[128];
		struct aclmdlRIKernelTaskParams kernelTaskParams;
		struct aclmdlRIEventRecordTaskParams eventRecordTaskParams;
		struct aclmdlRIEventWaitTaskParams eventWaitTaskParams;
		struct aclmdlRIEventResetTaskParams eventResetTaskParams;
		struct aclmdlRIValueWriteTaskParams valueWriteTaskParams;
		struct aclmdlRIValueWaitTaskParams valueWaitTaskParams;
	};
} aclmdlRITaskParams;

typedef struct tagAclmdlRICondTaskParams {
	aclmdlRICondHandle handle;
	aclmdlRICondTaskType type;
	uint32_t size; /* of modelRIArray */
	aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;

/*
 * Refused: instances that are built instead of captured, the tasks of an instance, conditions, an instance within
 * another, and what an instance prints and dumps.
 */

ACL_FUNC_VISIBILITY aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve);
ACL_FUNC_VISIBILITY aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclmdlRIAbort(aclmdlRI modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRIUpdate(aclmdlRI modelRI);
ACL_FUNC_VISIBILITY aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams);
ACL_FUNC_VISIBILITY aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask *tasks, uint32_t *numTasks);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params);
ACL_FUNC_VISIBILITY aclError aclmdlRITaskDisable(aclmdlRITask task);
ACL_FUNC_VISIBILITY aclError aclmdlRIKernelTaskGetAttribute(aclmdlRITask task, aclrtLaunchKernelAttrId attrId,
							    aclrtLaunchKernelAttrValue *attrValue);
ACL_FUNC_VISIBILITY aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue,
						      aclmdlRICondHandleFlag flag, aclmdlRICondHandle *handle);
ACL_FUNC_VISIBILITY aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr);
ACL_FUNC_VISIBILITY aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);
ACL_FUNC_VISIBILITY aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
							   aclmdlRICaptureMode mode);
ACL_DEPRECATED_MESSAGE("use aclmdlRIDebugJsonPrint")
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugPrint(aclmdlRI modelRI);
/*
 * Writes the instance's tasks, in the order of their capture, to a new file as JSON: {"id", "name", "streams", "tasks":
 * [{"stream": index, "type": "copy", "items", "bytes"}, {"stream", "type": "task"}]}. flags: SUMMARY or VERBOSE, which
 * are the same here. 100000: NULL; 107000: flags; 107017; 107026: still being captured; 507011: its capture failed;
 * 107009: the file cannot be opened; 107010: it cannot be written.
 */
ACL_FUNC_VISIBILITY aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);
ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char *dumpCfgPath);
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#include "acl_rt_memory_soma.h"

#endif
