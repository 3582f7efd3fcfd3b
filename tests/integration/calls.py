#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints a call of each function that the given headers declare, with mostly valid arguments.

calls.py MARK HEADER... [--over ALIASES] [--but LIST]
    MARK is what a declaration begins with (USDMA_API); names in LIST are left out; a name of "A(NAME, FUNCTION)" in ALIASES
    has the arguments of the function of ACL that it calls

One line a function: CALL(name, expression), in which `w` is the test's world (every_call.h).
An argument is chosen by function and name, by name, then by type.  An unsupported type is an error: a
new function is in the tests that include this, or the build fails with its name.
"""
import re
import sys

# By function and name of the parameter.
SPECIAL = {
    ('usdma_host_free', 'ptr'): 'w.host_to_free', ('usdma_device_free', 'ptr'): 'w.mem_to_free',
    ('usdma_host_register', 'ptr'): 'w.plain', ('usdma_host_unregister', 'ptr'): 'w.registered',
    ('usdma_copy', 'src'): 'w.host', ('usdma_copy_sync', 'src'): 'w.plain', ('usdma_setting_get', 'name'): '"spin_us"',
    ('usdma_setting_set', 'name'): '"spin_us"', ('usdma_setting_set', 'value'): '"1"', ('usdma_setting_get', 'size'): '64',
    ('usdma_open', 'name'): 'nullptr', ('usdma_stream_create', 'options'): 'nullptr',
    ('usdma_log_set_callback', 'fn'): 'nullptr', ('usdma_stream_call_status', 'fn'): '[](void *, int) {}',
    ('usdma_log_set_level', 'level'): '2', ('usdma_fill', 'len'): '64',
    ('usdma_file_import', 'fd'): 'w.file_fd', ('usdma_file_import', 'flags'): '0', ('usdma_file_batch', 'items'): '&w.file_item', ('usdma_wait_value', 'value'): '0', ('aclrtFreeHost', 'hostPtr'): 'w.host_to_free',
    ('aclrtFreeHostWithDevSync', 'hostPtr'): 'w.host_to_free', ('aclrtFree', 'devPtr'): 'w.mem_to_free',
    ('aclrtFreeWithDevSync', 'devPtr'): 'w.mem_to_free', ('aclrtHostRegister', 'ptr'): 'w.plain',
    ('aclrtHostRegisterV2', 'ptr'): 'w.plain', ('aclrtHostUnregister', 'ptr'): 'w.registered',
    ('aclrtHostGetDevicePointer', 'pHost'): 'w.registered', ('aclrtMemcpy', 'src'): 'w.plain',
    ('aclrtUnmapMem', 'virPtr'): 'w.mapped', ('aclrtReleaseMemAddress', 'virPtr'): 'w.mapped_not',
    ('aclrtMapMem', 'virPtr'): 'w.mapped_not', ('aclrtMapMem', 'size'): 'w.granule',
    ('aclrtMemRetainAllocationHandle', 'virPtr'): 'w.mapped', ('aclrtMallocPhysical', 'size'): 'w.granule',
    ('aclrtMallocPhysical', 'prop'): '&w.prop', ('aclrtMemGetAllocationGranularity', 'prop'): '&w.prop',
    ('aclrtMemPoolCreate', 'poolProps'): '&w.pool_props', ('aclrtReserveMemAddress', 'size'): 'w.granule',
    ('aclrtReserveMemAddress', 'alignment'): '0', ('aclrtReserveMemAddressNoUCMemory', 'size'): 'w.granule',
    ('aclrtReserveMemAddressNoUCMemory', 'alignment'): '0', ('aclrtReserveMemAddressNoUCMemory', 'flags'): '1',
    ('aclrtIpcMemGetExportKey', 'size'): '4096', ('aclrtValueWait', 'value'): '0', ('aclInit', 'configPath'): 'nullptr',
    ('aclDestroyDataBuffer', 'dataBuffer'): 'aclCreateDataBuffer(w.scratch, 64)',
    ('aclrtDestroyStreamConfigHandle', 'handle'): 'aclrtCreateStreamConfigHandle()',
    ('aclrtMemSetAccess', 'virPtr'): 'w.mapped', ('aclrtMemSetAccess', 'size'): 'w.granule', ('aclrtMemGetAccess', 'virPtr'): 'w.mapped',
    ('aclrtMemPoolFreeAsync', 'ptr'): 'w.pooled', ('aclrtMemPoolGetAttr', 'attr'): 'ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT',
    ('aclrtHostRegisterV2', 'flag'): 'ACL_HOST_REG_PINNED', ('aclrtIpcMemGetExportKey', 'len'): '65', ('aclrtIpcMemGetExportKey', 'key'): 'w.text',
    ('aclrtNotifyGetExportKey', 'len'): '65', ('aclrtNotifyGetExportKey', 'key'): 'w.text', ('rtIpcSetMemoryName', 'len'): '65',
    ('rtIpcSetMemoryName', 'name'): 'w.text', ('rtEventCreateWithFlag', 'flag'): 'RT_EVENT_DEFAULT',
    ('rtReduceAsync', 'kind'): 'RT_MEMCPY_SDMA_AUTOMATIC_ADD',
    ('rtStreamBeginCapture', 'mode'): 'ACL_MODEL_RI_CAPTURE_MODE_RELAXED', ('aclrtReduceAsync', 'kind'): 'ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM',
    ('aclrtMemExportToShareableHandleV2', 'shareType'): 'ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT',
    ('aclrtMemImportFromShareableHandleV2', 'shareType'): 'ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT',
    ('aclrtMemSetPidToShareableHandleV2', 'shareType'): 'ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT',
    ('aclrtDeviceCanAccessPeer', 'peerDeviceId'): '1', ('aclrtCheckMemType', 'addrList'): 'w.addresses', ('aclrtCheckMemType', 'size'): '1',
    ('aclrtCheckMemType', 'memType'): 'ACL_RT_MEM_TYPE_DEV', ('aclrtCreateStreamV2', 'handle'): 'nullptr',
    ('aclrtSetStreamConfigOpt', 'handle'): 'w.options', ('aclrtSetStreamConfigOpt', 'valueSize'): '8',
    ('aclrtSetStreamConfigOpt', 'attr'): 'ACL_RT_STREAM_FLAG', ('aclrtMemSetAccess', 'desc'): '&w.access',
    ('aclrtMemSetAccess', 'count'): '1', ('aclrtGetPrimaryCtxState', 'flags'): 'nullptr', ('rtIpcSetMemoryName', 'byteCount'): '4096',
    ('rtGetDeviceUuid', 'uuid'): 'w.out<rtUuid_t>()', ('rtIpcCloseMemory', 'ptr'): 'w.mem',
    ('aclrtGetMemInfo', 'attr'): 'ACL_HBM_MEM', ('aclrtMallocAlign32', 'policy'): 'ACL_MEM_MALLOC_NORMAL_ONLY',
    ('aclrtMemcpy2d', 'src'): 'w.host', ('aclrtMemcpy2dAsync', 'src'): 'w.host', ('aclrtMemcpyAsync', 'src'): 'w.host',
    ('aclrtIpcOpenEventHandle', 'handle'): 'w.event_key', ('aclrtCreateEventExWithFlag', 'flag'): 'ACL_EVENT_SYNC',
    ('aclrtCreateEventWithFlag', 'flag'): 'ACL_EVENT_SYNC', ('aclrtIpcGetEventHandle', 'event'): 'w.shared_event',
    ('aclrtDestroyContext', 'context'): 'w.other_context', ('aclrtSubscribeReport', 'stream'): 'w.other',
    ('aclrtSubscribeHostFunc', 'exeStream'): 'w.other', ('aclrtPointerGetAttributes', 'ptr'): 'w.mem',
    ('aclrtMemcpyAsyncWithDesc', 'desc'): 'w.descriptor', ('aclrtSetMemcpyDesc', 'desc'): 'w.descriptor',
    ('aclrtSetMemcpyDesc', 'kind'): 'ACL_MEMCPY_INNER_DEVICE_TO_DEVICE', ('aclrtMemcpyAsyncWithDesc', 'kind'): 'ACL_MEMCPY_INNER_DEVICE_TO_DEVICE',
    ('aclrtGetMemcpyDescSize', 'kind'): 'ACL_MEMCPY_INNER_DEVICE_TO_DEVICE', ('aclrtMemFlush', 'devPtr'): 'w.mem',
    ('aclrtDeviceL2CacheFlush', 'rsv'): 'nullptr', ('aclmdlRIGetName', 'maxLen'): '64', ('aclrtDeviceGetPCIBusId', 'len'): '16',
    ('aclrtCtxGetSysParamOpt', 'opt'): 'ACL_OPT_DETERMINISTIC',
    ('aclmdlRICaptureBegin', 'mode'): 'ACL_MODEL_RI_CAPTURE_MODE_RELAXED', ('aclmdlRICaptureTaskUpdateBegin', 'handle'): 'w.instance',
}
OVER = {}
# By name, with the kind of type: h, a handle; p, a pointer; n, a number.
NAMED = {
    'dev': 'h w.dev', 'stream': 'h w.stream', 'event': 'h w.event', 'start': 'h w.event', 'end': 'h w.event',
    'completion': 'h w.completion', 'set': 'h w.set', 'file': 'h w.file', 'offset': 'n 0', 'moved': 'p nullptr', 'sqe': 'p w.out<io_uring_sqe>()', 'dst': 'p w.mem', 'src': 'p w.mem + 8192', 'addr': 'p w.mem',
    'ptr': 'p w.mem', 'items': 'p &w.item', 'rect': 'p &w.rect', 'len': 'n 64', 'size': 'n 64', 'n': 'n 1', 'timeout_ms': 'n 100',
    'pattern_size': 'n 8', 'rules': 'p ""', 'fd': 'n w.fd', 'arg': 'p nullptr', 'name': 'p w.key', 'buf': 'p w.text',
    'activeStream': 'h w.stream', 'exeStream': 'h w.stream', 'stm': 'p w.stream', 'startEvent': 'h w.event', 'endEvent': 'h w.event',
    'context': 'h w.context', 'notify': 'h w.notify', 'cntNotify': 'h w.count', 'handle': 'h w.physical', 'memPool': 'h w.pool',
    'devPtr': 'p w.mem', 'devAddr': 'p w.mem', 'srcAddr': 'p w.mem', 'dstAddr': 'p w.mem + 8192', 'desc': 'p w.mem', 'virPtr': 'p w.mapped',
    'virPtrDst': 'p w.mem', 'virPtrSrc': 'p w.mem', 'hostPtr': 'p w.host', 'pHost': 'p w.host', 'userData': 'p nullptr', 'args': 'p nullptr',
    'reserve': 'p nullptr', 'config': 'p nullptr', 'expectPtr': 'p nullptr', 'data': 'p w.scratch', 'symbol': 'p w.mem', 'key': 'p w.key',
    'shareableHandle': 'p w.scratch', 'pkgName': 'p w.text', 'versionStr': 'p w.text', 'uuid': 'p w.out<aclrtUuid>()', 'regName': 'p "calls"', 'cfg': 'p nullptr',
    'destMax': 'n 4096', 'dstMax': 'n 4096', 'maxCount': 'n 4096', 'memSize': 'n 4096', 'count': 'n 64', 'cnt': 'n 64', 'N': 'n 16',
    'dpitch': 'n 64', 'spitch': 'n 64', 'width': 'n 64', 'height': 'n 2', 'num': 'n 1', 'pidNum': 'n 1', 'numBatches': 'n 1',
    'numAttrs': 'n 1', 'inputNum': 'n 1', 'timeout': 'n 100', 'threadId': 'n w.thread', 'hostFuncThreadId': 'n w.thread',
    'dsts': 'p w.addresses', 'srcs': 'p w.source_addresses', 'destMaxs': 'p w.sizes', 'sizes': 'p w.sizes', 'value': 'n 1', 'attrs': 'p &w.batch',
    'modelRI': 'h w.instance', 'ptrs': 'p w.const_addresses', 'notifies': 'p &w.notify', 'dataBuffer': 'p w.buffer',
}
FUNCTIONS = {'aclrtHostFunc', 'aclrtCallback', 'void (*'}
HANDLES = {'aclrtStream', 'aclrtEvent', 'aclrtContext', 'aclrtNotify', 'aclrtCntNotify', 'aclrtDrvMemHandle', 'aclrtMemPool', 'aclmdlRI',
           'rtStream_t', 'rtEvent_t', 'rtContext_t', 'rtNotify_t', 'rtModel_t', 'usdma_device *', 'usdma_stream *', 'usdma_event *', 'usdma_completion *', 'usdma_completion_set *', 'usdma_file *'}
NUMBERS = {'size_t', 'uint16_t', 'rtMemType_t', 'uint64_t', 'uint32_t', 'int32_t', 'int64_t', 'int', 'unsigned', 'float', 'aclFloat16'}


def declared(mark, paths):
    for path in paths:
        text = re.sub(r'/\*.*?\*/', ' ', open(path, encoding='utf-8').read(), flags=re.S)
        text = re.sub(r'^#.*$', '', text.replace('\\\n', ' '), flags=re.M)
        for statement in text.split(';'):
            if mark in statement:
                words = ' '.join(statement.split(mark)[1].split())
                yield re.match(r'.*?(\w+)\s*\((.*)\)(?:\s*__attribute__.*)?$', words).groups()


def parameters(text):
    """(type, name) of each."""
    for one in re.split(r',(?![^()]*\))', text):
        callback = re.match(r'\s*void \(\*(\w+)\)', one)
        if callback:
            yield 'void (*', callback.group(1)
        elif one.strip() not in ('void', '...'):
            kind, name = re.match(r'\s*(.*?)(\w+)\s*$', one).groups()
            yield kind.strip(), name


def kind_of(kind):
    plain = kind.replace('const ', '').replace('struct ', '').strip()
    if plain in HANDLES:
        return 'h'
    if plain.endswith('*') or plain.endswith('*const') or plain.endswith('* const'):
        return 'p'
    return 'n' if plain in NUMBERS else 'e'


def argument(function, kind, name):
    if (function, name) in SPECIAL:
        return SPECIAL[function, name]
    if (OVER.get(function), name) in SPECIAL and kind_of(kind) != 'e':
        return SPECIAL[OVER[function], name]
    if kind in FUNCTIONS:
        return 'nothing'
    if re.search(r'(Callback|Func|_fn)$', kind):
        return 'nullptr'
    is_a = kind_of(kind)
    want, _, value = NAMED.get(name, '').partition(' ')
    # Results are stored in the world's memory; a void * of these names is an address.
    if want == is_a and (is_a != 'p' or name != 'value') and not (is_a == 'p' and kind.endswith('**') and name in ('devPtr', 'ptr', 'virPtr', 'hostPtr', 'dst', 'src') and 'Offset' not in function):
        if kind in ('void **', 'const void **') and name in ('dst', 'src'):
            return 'w.addresses' if name == 'dst' else 'w.const_addresses'
        return value
    if is_a == 'p':
        to = re.sub(r'\s*(\*const|\* const|\*)$', '', kind)
        return 'w.text' if to.replace('const ', '') == 'char' else 'w.scratch' if to in ('void', 'const void') else f'w.out<{to}>()'
    if is_a == 'n':
        return '0'
    if is_a == 'e':
        return {'aclrtMemcpyKind': 'ACL_MEMCPY_DEFAULT', 'rtMemcpyKind_t': 'RT_MEMCPY_DEFAULT'}.get(kind) or f'{kind.replace("const ", "")}{{}}'
    sys.exit(f'{function}: no argument for {kind} {name}: add one here')


def main():
    args, but = sys.argv[1:], set()
    if '--but' in args:
        with open(args.pop(), encoding='utf-8') as f:
            but = {name for line in f if line[0] not in '#=' for name in line.split(': ')[0].split()}
        args.pop()
    if '--over' in args:
        with open(args.pop(), encoding='utf-8') as f:
            OVER.update(re.findall(r'A\((\w+), (\w+)\)', f.read()))
        args.pop()
    mark, paths = args[0], args[1:]
    for name, text in sorted(set(declared(mark, paths))):
        if ' inline ' not in text and name not in but:
            print(f'CALL({name}, {name}({", ".join(argument(name, k, n) for k, n in parameters(text))}))')


main()
