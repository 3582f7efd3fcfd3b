# SPDX-License-Identifier: BSD-3-Clause
"""The interpreter exits while threads are in calls and callbacks are pending: the process still exits with status 0."""
import subprocess
import sys
import textwrap

import pytest

# The finalization of the interpreter is so slow that threads return from their calls meanwhile.
PROLOGUE = """
    import sys, threading, time
    import acl

    class SlowFinalizer:
        def __del__(self, pause=time.sleep):
            pause(0.3)

    sys.slow = SlowFinalizer()  # a module that is cleared late, whatever the threads' frames hold
    rt = acl.rt
    assert rt.set_device(0) == 0
    stream, ret = rt.create_stream()
    assert ret == 0
    inside = threading.Semaphore(0)

    def start(fn):
        threading.Thread(target=fn, daemon=True).start()
"""

PROGRAMS = {
    "calls": """
        def work():
            assert rt.set_device(0) == 0
            inside.release()
            while True:
                rt.synchronize_stream(stream)
                rt.get_mem_info(1)

        for _ in range(4):
            start(work)
        for _ in range(4):
            inside.acquire()
    """,
    "reports": """
        def work():
            inside.release()
            while True:
                rt.process_report(1)

        def call(data):
            inside.release()

        start(work)
        inside.acquire()
        rt.subscribe_report(threading.get_ident(), stream)
        for _ in range(3):
            start(work)
            inside.acquire()
    """,
    "started threads": """
        def work(_):
            inside.release()
            while True:
                rt.get_device_count()

        for _ in range(3):
            acl.util.start_thread(work, [])
            inside.acquire()
    """,
    "callbacks": """
        def serve():
            assert rt.set_device(0) == 0
            inside.release()
            while True:
                rt.process_report(100)

        def submit():
            assert rt.set_device(0) == 0
            while True:
                rt.launch_callback(lambda data: inside.release(), None, 1, stream)
                rt.synchronize_stream(stream)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        inside.acquire()
        assert rt.subscribe_report(server.ident, stream) == 0
        start(submit)
        for _ in range(3):
            inside.acquire()
    """,
    "functions that raise, and destructors": """
        import usdma
        some_device = usdma.Device("sim:mem=64M")
        some = some_device.stream()

        def fail(_):
            inside.release()
            raise RuntimeError("reported while the interpreter exits")

        class Buffer(bytearray):
            def __del__(self, pause=time.sleep):
                pause(0)

        memory = some_device.device_buffer(4096)

        def submit():
            while True:
                some.call(fail)
                some.copy(memory, Buffer(4096))
                some.synchronize()

        start(submit)
        for _ in range(3):
            inside.acquire()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreter_exits(name):
    program = textwrap.dedent(PROLOGUE) + textwrap.dedent(PROGRAMS[name])
    for _ in range(4):
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


SUB_INTERPRETER = """
    import sys

    def refusal(code):
        try:
            import _interpreters as sub
            found = sub.exec(sub.create(), code)
            return found and found.formatted
        except ImportError:
            import _xxsubinterpreters as sub
        try:
            sub.run_string(sub.create(), code)
        except sub.RunFailedError as e:
            return str(e)

    for code in ("import acl", "import acl.rt", "import usdma"):
        assert "interpreter" in refusal(code), code
    import acl, usdma
    for code in ("import acl", "import acl.rt", "import usdma"):
        assert "interpreter" in refusal(code), code
    assert acl.rt.set_device(0) == 0
"""


def test_sub_interpreters_are_refused():
    """Before and after the main interpreter has imported the modules."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(SUB_INTERPRETER)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
