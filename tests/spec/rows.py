# SPDX-License-Identifier: BSD-3-Clause
"""
The rows of the vfio-user specification that both sides are held to, each by a name: what must be, in our words.  The
section of the specification is the name's first part.
"""

ROWS = {
    # Header
    "header.size": "the message size counts the header, and is all that comes",
    "header.type": "a message is a command or a reply",
    "header.echo": "a reply has the id and the command of a command that waits for one",
    "header.no-reply": "a command with No_reply has no reply",
    "header.error-alone": "a reply with the Error bit is a header and nothing else",
    "header.error-reserved": "a command's error field is 0",
    "header.descriptors": "descriptors come only with messages that have a place for them",
    "header.order": "replies of the server come in the order of the commands",
    "header.unknown": "a command that a server does not know is answered by an error",
    # VERSION
    "version.first": "VERSION is the client's first message, and comes once",
    "version.major": "the reply's major version is the one that was proposed",
    "version.minor": "the reply's minor version is not above the one that was proposed",
    "version.json": "version data is a JSON object of UTF-8 with a NUL at its end; its capabilities are an object",
    "version.subset": "the reply's capabilities are among those proposed, and not above them where both name a number",
    "version.max-msg-fds": "no message brings more descriptors than its receiver has said, or 1",
    "version.max-data-xfer": "no access is longer than its receiver has said, or 1 MiB",
    "version.max-dma-maps": "no more areas are mapped than the server has said, or 65535",
    "version.defaults": "a client that says nothing is served by the defaults",
    "version.refused": "a proposal of another major version is refused",
    "version.bad-json": "version data that is no such JSON is refused",
    # DMA_MAP
    "map.layout": "argsz is 32, and so is the payload",
    "map.flags": "flags are readable, writeable, or both",
    "map.pages": "address, size and offset are whole pages",
    "map.descriptor": "one descriptor, or none and an offset of 0",
    "map.reply": "the reply has no payload",
    "map.exists": "mapping over an area fails with EEXIST, and the area stays",
    "map.limits": "areas that overflow, that are empty, or that their file does not hold are refused",
    # DMA_UNMAP
    "unmap.layout": "argsz at least 24, a payload of 24, flags 0",
    "unmap.exact": "the client unmaps what it has mapped",
    "unmap.reply": "the reply is the request's entry",
    "unmap.released": "once it is answered, the server has no reference to the memory",
    "unmap.unknown": "what is not mapped cannot be unmapped",
    # DEVICE_GET_INFO
    "info.request": "argsz at least 16, all else 0",
    "info.reply": "argsz 16; a PCI device of at least 9 regions and 5 types of interrupts",
    "info.limits": "an argsz that is too small is refused",
    # DEVICE_GET_REGION_INFO
    "region.request": "argsz at least 32, all else but the index 0",
    "region.argsz": "the reply's argsz is the full size; where that is not asked for, the reply has only what is",
    "region.reply": "the reply has the request's index, and known flags",
    "region.mmap": "the MMAP flag brings a descriptor, and nothing else does",
    "region.file": "the descriptor's file holds the region, from the offset on",
    "region.caps": "the CAPS flag goes with a list that lies within the reply",
    "region.sparse": "a list of mappable areas has version 1, and its areas lie within the region",
    "region.limits": "an index that is not there, and an argsz that is too small, are refused",
    # DEVICE_GET_REGION_IO_FDS
    "io-fds.request": "argsz at least 16, all else but the index 0",
    "io-fds.reply": "flags 0, the request's index, and count entries of equal length of at least 40 bytes",
    "io-fds.entry": "each entry lies within the region, and its descriptor is one that came, or none",
    "io-fds.descriptor": "at least one descriptor comes with entries",
    "io-fds.limits": "an index that is not there, flags, and an argsz that is too small, are refused",
    # DEVICE_GET_IRQ_INFO
    "irq.request": "argsz at least 16, all else but the index 0",
    "irq.reply": "argsz 16, the request's index, known flags",
    "irq.limits": "an index that is not there, and an argsz that is too small, are refused",
    # DEVICE_SET_IRQS
    "set-irqs.argsz": "argsz is the payload's size",
    "set-irqs.flags": "one data flag, one action flag",
    "set-irqs.range": "start and count lie within the interrupts that there are",
    "set-irqs.eventfds": "with eventfds: one for each, or none at all",
    "set-irqs.bools": "with booleans: one for each",
    "set-irqs.reply": "the reply has no payload",
    "set-irqs.trigger": "an interrupt that a client triggers reaches its eventfd",
    "set-irqs.disable": "no data, start and count 0: all of the index are off",
    "set-irqs.limits": "what is no eventfd, beyond the range, or of contradicting flags, is refused",
    # REGION_READ, REGION_WRITE
    "access.read": "a read has 16 bytes; its reply repeats them, and has count bytes more",
    "access.write": "a write has count bytes behind its 16; its reply repeats those 16",
    "access.limits": "accesses outside of a region, of a length that is not the payload's, or too long, are refused",
    "access.mappable": "a region that can be mapped can be read and written by messages, too",
    # DMA_READ, DMA_WRITE
    "dma.read": "a read has 16 bytes; its reply repeats the address, and has count bytes behind 16",
    "dma.write": "a write has count bytes behind its 16; its reply repeats the address",
    "dma.mapped": "the memory is mapped, for that direction",
    "dma.no-descriptor": "only where no descriptor came with the area",
    # DEVICE_RESET
    "reset.empty": "neither the command nor its reply has a payload",
    "reset.keeps": "areas and interrupts are as before",
    # REGION_WRITE_MULTI, DEVICE_FEATURE, MIG_DATA_READ, MIG_DATA_WRITE
    "optional.agreed": "REGION_WRITE_MULTI and the twin socket only where both sides have said so",
    "optional.refused": "optional commands that a server does not have are answered by an error",
    # Disconnection
    "end.next": "after a client has gone, its areas and eventfds are released, and the next one is served",
}
