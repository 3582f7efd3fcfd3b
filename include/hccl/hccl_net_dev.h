/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/* Devices through which HCCL's memory is shared (hccl_mem.h); on one host there is no network, and no address of it. */
#ifndef USDMA_HCCL_NET_DEV_H
#define USDMA_HCCL_NET_DEV_H

#include "hccl_mem.h"

extern "C" {

constexpr uint32_t SUPER_DEVICE_ID_INVALID = 0xFFFFFFFF;

typedef enum {
	HCCL_NETDEV_DEPLOYMENT_RESERVED = -1,
	HCCL_NETDEV_DEPLOYMENT_HOST = 0,
	HCCL_NETDEV_DEPLOYMENT_DEVICE = 1
} HcclNetDevDeployment;

typedef enum {
	HCCL_PROTO_TYPE_RESERVED = -1,
	HCCL_PROTO_TYPE_BUS = 0,
	HCCL_PROTO_TYPE_TCP = 1,
	HCCL_PROTO_TYPE_ROCE = 2,
	HCCL_PROTO_TYPE_UB_CTP = 3,
	HCCL_PROTO_TYPE_UBC_CTP = HCCL_PROTO_TYPE_UB_CTP,
	HCCL_PROTO_TYPE_UBC_TP = 4,
	HCCL_PROTO_TYPE_UB_RTP = 5,
	HCCL_PROTO_TYPE_UBG_TP = HCCL_PROTO_TYPE_UB_RTP
} HcclProtoType;

typedef enum { HCCL_ADDR_TYPE_RESERVED = -1, HCCL_ADDR_TYPE_IP_V4 = 0, HCCL_ADDR_TYPE_IP_V6 = 1 } HcclAddressType;

typedef struct HcclAddressDef {
	HcclProtoType protoType{HCCL_PROTO_TYPE_RESERVED};
	HcclAddressType type{HCCL_ADDR_TYPE_RESERVED};
	union {
		struct in_addr addr;
		struct in6_addr addr6;
	};
} HcclAddress;

typedef struct HcclNetDevInfosDef {
	HcclNetDevDeployment netdevDeployment{HCCL_NETDEV_DEPLOYMENT_RESERVED};
	int32_t devicePhyId{-1};
	HcclAddress addr;
	bool isBackup{false};
} HcclNetDevInfos;

typedef struct HcclDeviceIdDef {
	uint32_t superDeviceId{SUPER_DEVICE_ID_INVALID};
	int32_t devicePhyId{-1};
} HcclDeviceId;

/* Of the thread's context. E_PTR: NULL; E_PARA: no deployment or protocol; E_RUNTIME: the thread has no context. */
HCCL_API HcclResult HcclNetDevOpen(const HcclNetDevInfos *info, HcclNetDev *netDev);
/* Its memory is deregistered; what was imported stays until HcclMemClose(). E_PTR: NULL; E_PARA: no such device. */
HCCL_API HcclResult HcclNetDevClose(HcclNetDev netDev);
/* The address that it was opened with. E_PTR, E_PARA as above. */
HCCL_API HcclResult HcclNetDevGetAddr(HcclNetDev netDev, HcclAddress *addr);
/* E_PTR: NULL; E_NOT_SUPPORT: devices here have no addresses. */
HCCL_API HcclResult HcclNetDevGetBusAddr(HcclDeviceId dstDevId, HcclAddress *busAddr);
HCCL_API HcclResult HcclNetDevGetNicAddr(int32_t devicePhyId, HcclAddress **addr, uint32_t *addrNum);

} // extern "C"

#endif
