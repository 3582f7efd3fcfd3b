/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels between two endpoints of HCOMM, on one host. */
#ifndef USDMA_HCOMM_CHANNEL_H
#define USDMA_HCOMM_CHANNEL_H

#include "hcomm_res_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

static const uint32_t HCOMM_CHANNEL_MAGIC_WORD = 0x0fcf0f0fU;
static const uint32_t HCOMM_CHANNEL_VERSION_ONE = 1U;
static const uint32_t HCOMM_CHANNEL_VERSION = 4U;
static const uint32_t HCOMM_CHANNEL_NAME_MAX_LEN = 191U;
enum { HCOMM_CHANNEL_DESC_RAW_MAX_LEN = 128 };

typedef struct {
	uint32_t queueNum;
	uint32_t retryCnt;
	uint32_t retryInterval;
	uint8_t tc;
	uint8_t sl;
	uint32_t qpThreshold;
	uint32_t cqAttrFlags;
	uint16_t *srcPortList;
} HcommChannelRoceAttr;

typedef struct {
	uint32_t qos;
} HcommChannelHccsAttr;

typedef struct {
	uint32_t sqDepth;
} HcommChannelUbAttr;

typedef struct {
	uint8_t pathMode;
} HcommChannelUbMemAttr;

/* Set all of it by HcommChannelDescInit() first. Attributes of protocols have no effect here. */
typedef struct {
	CommAbiHeader header;
	EndpointDesc remoteEndpoint;
	uint32_t notifyNum;         /* notifies of each side, at most 64 */
	bool exchangeAllMems;       /* all memory that is registered with the endpoint */
	HcommMemHandle *memHandles; /* else these */
	uint32_t memHandleNum;
	HcommSocket socket; /* NULL */
	HcommSocketRole role;
	uint16_t port; /* the same on both sides */
	union {
		uint8_t raws[HCOMM_CHANNEL_DESC_RAW_MAX_LEN];
		HcommChannelRoceAttr roceAttr;
		HcommChannelHccsAttr hccsAttr;
		HcommChannelUbAttr ubAttr;
		HcommChannelUbMemAttr ubMemAttr;
	};
	uint32_t qos;
	const char *channelName; /* the same on both sides; NULL: port and endpoints name the channel */
} HcommChannelDesc;

#define HCOMM_CHANNEL_DESC_ABI_V1_SIZE (offsetof(HcommChannelDesc, qos))

/* 2: NULL. */
static inline HcommResult HcommChannelDescInit(HcommChannelDesc *channelDesc, uint32_t descNum)
{
	for (uint32_t i = 0; i < descNum; i++) {
		HcommChannelDesc *d = channelDesc + i;

		if (!channelDesc)
			return 2;
		__builtin_memset(d, 0xff, sizeof(*d));
		d->header.version = HCOMM_CHANNEL_VERSION;
		d->header.magicWord = HCOMM_CHANNEL_MAGIC_WORD;
		d->header.size = sizeof(*d);
		d->header.reserved = 0;
		d->notifyNum = 0;
		d->exchangeAllMems = false;
		d->memHandles = NULL;
		d->memHandleNum = 0;
		d->socket = NULL;
		d->role = HCOMM_SOCKET_ROLE_RESERVED;
		d->port = 0;
		d->roceAttr.srcPortList = NULL;
		d->channelName = NULL;
		(void)EndpointDescInit(&d->remoteEndpoint, 1);
	}
	return 0;
}

/*
 * Makes channels of an endpoint, each to another one of a process of this user and host, which makes its side with the
 * same port and name, in any order; they connect while HcommChannelGetStatus() is called on both sides. Without a role
 * the endpoints decide. Descriptors of versions 1 to 4 are read. All or none are made. E_PTR: NULL; E_PARA: channelNum
 * 0 or above 1048576, a descriptor of another size or magic word, notifyNum above 64, a name that is too long;
 * E_NOT_FOUND: no such endpoint or memory; E_NOT_SUPPORT: the engines AIV and CCU, a socket of the caller; E_MEMORY;
 * E_RUNTIME: an ACL call failed.
 */
HCOMM_API HcommResult HcommChannelCreate(EndpointHandle endpointHandle, CommEngine engine,
					 HcommChannelDesc *channelDescs, uint32_t channelNum, ChannelHandle *channels);
/*
 * Takes the next step of each without waiting: 0: connected, 1: not yet, call again, 2: failed, or the other side has
 * lost, 3: not connected within HCCL_CONNECT_TIMEOUT. E_PTR, E_PARA: as above; E_NOT_FOUND: no such channel.
 */
HCOMM_API HcommResult HcommChannelGetStatus(const ChannelHandle *channelList, uint32_t listNum, int32_t *statusList);
/*
 * Calls of other threads that use it go on until they return. The other side's calls fail from then on. E_PTR, E_PARA,
 * E_NOT_FOUND: one is no channel, the others are destroyed.
 */
HCOMM_API HcommResult HcommChannelDestroy(const ChannelHandle *channels, uint32_t channelNum);

#ifdef __cplusplus
}
#endif

#endif
