# SPDX-License-Identifier: BSD-3-Clause
"""
The requirements (rows) of the vfio-user specification for both sides, each with a name and a summary.  The name's first part
is the section of the specification.
"""

ROWS = {
    # Header
    "header.size": "the message size includes the header, and equals the bytes received",
    "header.type": "a message is a command or a reply",
    "header.echo": "a reply has the id and the command of a pending command",
    "header.no-reply": "a command with No_reply has no reply",
    "header.error-alone": "a reply with the Error bit has no payload",
    "header.error-reserved": "a command's error field is 0",
    "header.descriptors": "only messages that are defined with descriptors carry any",
    "header.order": "the server replies in the order of the commands",
    "header.unknown": "an unknown command is answered by an error",
    # VERSION
    "version.first": "VERSION is the client's first message, and is sent once",
    "version.major": "the reply's major version equals the proposed one",
    "version.minor": "the reply's minor version is at most the proposed one",
    "version.json": "version data is a JSON object of UTF-8 with a NUL at its end; its capabilities are an object",
    "version.subset": "the reply's capabilities are a subset of those proposed; numbers are at most those proposed",
    "version.max-msg-fds": "no message has more descriptors than the receiver's limit (default 1)",
    "version.max-data-xfer": "no access is longer than the receiver's limit (default 1 MiB)",
    "version.max-dma-maps": "no more areas are mapped than the server's limit (default 65535)",
    "version.defaults": "a client without capabilities is served with the defaults",
    "version.refused": "a proposal of another major version is refused",
    "version.bad-json": "invalid version data is refused",
    # DMA_MAP
    "map.layout": "argsz is 32, and so is the payload",
    "map.flags": "flags are readable, writeable, or both",
    "map.pages": "address, size and offset are whole pages",
    "map.descriptor": "one descriptor, or none and an offset of 0",
    "map.reply": "the reply has no payload",
    "map.exists": "mapping over an area fails with EEXIST, and the area remains mapped",
    "map.limits": "areas that overflow, are empty, or exceed their file are refused",
    # DMA_UNMAP
    "unmap.layout": "argsz is at least 24, the payload has 24 bytes, flags are 0",
    "unmap.exact": "the client unmaps exactly an area that it has mapped",
    "unmap.reply": "the reply repeats the request's entry",
    "unmap.released": "after the reply the server has no reference to the memory",
    "unmap.unknown": "unmapping an area that is not mapped is refused",
    # DEVICE_GET_INFO
    "info.request": "argsz at least 16, all else 0",
    "info.reply": "argsz 16; a PCI device of at least 9 regions and 5 types of interrupts",
    "info.limits": "an argsz that is too small is refused",
    # DEVICE_GET_REGION_INFO
    "region.request": "argsz at least 32, all else but the index 0",
    "region.argsz": "the reply's argsz is the full size; the payload is truncated to the request's argsz",
    "region.reply": "the reply has the request's index, and valid flags",
    "region.mmap": "a reply has a descriptor if and only if the MMAP flag is set",
    "region.file": "the descriptor's file contains the region at the offset",
    "region.caps": "the CAPS flag is set if and only if a capability list lies within the reply",
    "region.sparse": "a list of mappable areas has version 1, and its areas lie within the region",
    "region.limits": "an index that is not there, and an argsz that is too small, are refused",
    # DEVICE_GET_REGION_IO_FDS
    "io-fds.request": "argsz at least 16, all else but the index 0",
    "io-fds.reply": "flags 0, the request's index, and count entries of equal length of at least 40 bytes",
    "io-fds.entry": "each entry lies within the region, and its descriptor index is valid or none",
    "io-fds.descriptor": "a reply with entries has at least one descriptor",
    "io-fds.limits": "an index that is not there, flags, and an argsz that is too small, are refused",
    # DEVICE_GET_IRQ_INFO
    "irq.request": "argsz at least 16, all else but the index 0",
    "irq.reply": "argsz 16, the request's index, valid flags",
    "irq.limits": "an index that is not there, and an argsz that is too small, are refused",
    # DEVICE_SET_IRQS
    "set-irqs.argsz": "argsz is the payload's size",
    "set-irqs.flags": "one data flag, one action flag",
    "set-irqs.range": "start and count lie within the index's interrupts",
    "set-irqs.eventfds": "with eventfds: one for each, or none at all",
    "set-irqs.bools": "with booleans: one for each",
    "set-irqs.reply": "the reply has no payload",
    "set-irqs.trigger": "an interrupt that a client triggers reaches its eventfd",
    "set-irqs.disable": "no data, start and count 0: all interrupts of the index are disabled",
    "set-irqs.limits": "other files than eventfds, ranges beyond the last interrupt and contradicting flags are refused",
    # REGION_READ, REGION_WRITE
    "access.read": "a read has 16 bytes; its reply repeats them, followed by count bytes",
    "access.write": "a write has 16 bytes, followed by count bytes; its reply repeats the 16",
    "access.limits": "accesses outside of a region, of a length that is not the payload's, or too long, are refused",
    "access.mappable": "a region that can be mapped can be read and written by messages, too",
    # DMA_READ, DMA_WRITE
    "dma.read": "a DMA read has 16 bytes; its reply repeats the address, and has count bytes after the 16",
    "dma.write": "a DMA write has 16 bytes, followed by count bytes; its reply repeats the address",
    "dma.mapped": "the memory is mapped, for that direction",
    "dma.no-descriptor": "DMA by messages is used only for areas without a descriptor",
    # DEVICE_RESET
    "reset.empty": "neither the command nor its reply has a payload",
    "reset.keeps": "areas and interrupts are unchanged after a reset",
    # REGION_WRITE_MULTI, DEVICE_FEATURE, MIG_DATA_READ, MIG_DATA_WRITE
    "optional.agreed": "REGION_WRITE_MULTI and the twin socket are used only if both sides support them",
    "optional.refused": "optional commands that the server does not support are answered by an error",
    # Disconnection
    "end.next": "after a client disconnects, its areas and eventfds are released, and the next client is served",
}
