/* SPDX-License-Identifier: BSD-3-Clause */
/* Types of HCOMM's endpoints, memory, threads and channels. Names, values and layouts are HCOMM's. */
#ifndef USDMA_HCOMM_RES_DEFS_H
#define USDMA_HCOMM_RES_DEFS_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HCOMM_API
#define HCOMM_API __attribute__((visibility("default")))
#endif

enum { COMM_ADDR_EID_LEN = 16 };

/* Values of HcclResult. */
typedef int32_t HcommResult;
typedef void *EndpointHandle;
typedef void *HcommMemHandle;
typedef void *HcommSocket;

#ifndef CHANNEL_HANDLE_DEFINED
#define CHANNEL_HANDLE_DEFINED
typedef uint64_t ChannelHandle;
#endif

#ifndef THREAD_HANDLE_DEFINED
#define THREAD_HANDLE_DEFINED
typedef uint64_t ThreadHandle;
#endif

typedef struct {
	uint32_t version;
	uint32_t magicWord;
	uint32_t size;
	uint32_t reserved;
} CommAbiHeader;

typedef enum {
	COMM_ENGINE_RESERVED = -1,
	COMM_ENGINE_CPU = 0,
	COMM_ENGINE_CPU_TS = 1,
	COMM_ENGINE_AICPU = 2,
	COMM_ENGINE_AICPU_TS = 3,
	COMM_ENGINE_AIV = 4,
	COMM_ENGINE_CCU = 5
} CommEngine;

typedef enum {
	COMM_PROTOCOL_RESERVED = -1,
	COMM_PROTOCOL_HCCS = 0,
	COMM_PROTOCOL_ROCE = 1,
	COMM_PROTOCOL_PCIE = 2,
	COMM_PROTOCOL_SIO = 3,
	COMM_PROTOCOL_UB_CTP = 4,
	COMM_PROTOCOL_UBC_CTP = COMM_PROTOCOL_UB_CTP,
	COMM_PROTOCOL_UBC_TP = 5,
	COMM_PROTOCOL_UB_MEM = 6,
	COMM_PROTOCOL_UBOE = 7,
	COMM_PROTOCOL_HCCS_ONLY = 8,
	COMM_PROTOCOL_UB_RTP = 9,
	COMM_PROTOCOL_UBG = COMM_PROTOCOL_UB_RTP
} CommProtocol;

typedef enum {
	COMM_ADDR_TYPE_RESERVED = -1,
	COMM_ADDR_TYPE_IP_V4 = 0,
	COMM_ADDR_TYPE_IP_V6 = 1,
	COMM_ADDR_TYPE_ID = 2,
	COMM_ADDR_TYPE_EID = 3
} CommAddrType;

typedef struct {
	CommAddrType type;
	union {
		uint8_t raws[36];
		struct in_addr addr;
		struct in6_addr addr6;
		uint32_t id;
		uint8_t eid[COMM_ADDR_EID_LEN];
	};
} CommAddr;

typedef enum {
	ENDPOINT_LOC_TYPE_RESERVED = -1,
	ENDPOINT_LOC_TYPE_DEVICE = 0,
	ENDPOINT_LOC_TYPE_HOST = 1
} EndpointLocType;

typedef struct {
	uint32_t devPhyId;
	uint32_t superDevId;
	uint32_t serverIdx;
	uint32_t superPodIdx;
} EndpointLocDevice;

typedef struct {
	uint32_t id;
} EndpointLocHost;

typedef struct {
	EndpointLocType locType;
	union {
		uint8_t raws[60];
		EndpointLocDevice device;
		EndpointLocHost host;
	};
} EndpointLoc;

typedef struct {
	CommProtocol protocol;
	CommAddr commAddr;
	EndpointLoc loc;
	union {
		uint8_t raws[52];
	};
} EndpointDesc;

typedef enum {
	COMM_MEM_TYPE_INVALID = -1,
	COMM_MEM_TYPE_DEVICE = 0,
	COMM_MEM_TYPE_HOST = 1,
	COMM_MEM_TYPE_CCU = 2
} CommMemType;

typedef struct {
	CommMemType type;
	void *addr;
	uint64_t size; /* bytes */
} CommMem;

typedef enum {
	HCOMM_SOCKET_ROLE_RESERVED = -1,
	HCOMM_SOCKET_ROLE_CLIENT = 0,
	HCOMM_SOCKET_ROLE_SERVER = 1
} HcommSocketRole;

typedef enum { HCOMM_ENDPOINT_FEATURE_INVALID = -1, HCOMM_ENDPOINT_FEATURE_NDA = 0 } HcommEndpointFeatureType;
typedef enum { THREAD_RES_TYPE_INVALID = -1, THREAD_RES_TYPE_STREAM = 0 } ThreadResType;

/* What is not set is 0xff or RESERVED. 2: NULL. */
static inline HcommResult EndpointDescInit(EndpointDesc *endpoint, uint32_t num)
{
	for (uint32_t i = 0; i < num; i++) {
		if (!endpoint)
			return 2;
		__builtin_memset(&endpoint[i], 0xff, sizeof(*endpoint));
		endpoint[i].protocol = COMM_PROTOCOL_RESERVED;
		endpoint[i].commAddr.type = COMM_ADDR_TYPE_RESERVED;
		endpoint[i].loc.locType = ENDPOINT_LOC_TYPE_RESERVED;
	}
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif
