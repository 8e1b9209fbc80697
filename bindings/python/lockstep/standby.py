# SPDX-License-Identifier: Apache-2.0
"""A process that has imported what a rank needs, and waits to become one; started by `lockstep run --warm`.

usage: python3 standby.py MODULES SCRIPT [ARG...]

Its standard output is a socket to the launcher.  It imports the modules slowly, so that it takes little from the job, and sends
"ready".  Then a message comes with the environment of a rank (NAME=VALUE and a NUL each) and two descriptors, which become its
standard output and error; it runs SCRIPT as Python would.  If the socket ends first, it ends too.

A module that starts a thread or opens a GPU cannot be imported ahead: it is added to MODULES.not, and the process ends with status
75, to be started again without it.
"""
import array
import os
import signal
import socket
import sys
import time

LEFT_OUT = 75
CPU_SLICE, PAUSE = 0.004, 0.016  # a fifth of a processor
HURRY = os.environ.get("LOCKSTEP_WARM_HURRY") == "1"  # for tests


def slow_down(on):
    signal.signal(signal.SIGPROF, lambda *_: time.sleep(PAUSE))
    signal.setitimer(signal.ITIMER_PROF, CPU_SLICE if on else 0, CPU_SLICE if on else 0)


def unfit():
    """Why what was imported cannot wait here; None: it can."""
    if len(os.listdir("/proc/self/task")) > 1:
        return "thread"
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("/dev/nvidia"):
                return "device"
        except OSError:
            pass
    return None


def lines(path):
    try:
        with open(path) as file:
            return file.read().split("\n")[:-1]
    except OSError:
        return []


def import_all(path):
    from importlib import import_module
    left_out = {line.split(" ")[0] for line in lines(path + ".not")}
    for name in lines(path):
        if name in sys.modules or name in left_out or any(name.startswith(out + ".") for out in left_out):
            continue
        try:
            import_module(name)
        except Exception:
            continue  # what cannot be imported by its name alone is imported by the program
        why = unfit()
        if why:
            with open(path + ".not", "a") as out:
                out.write("%s %s\n" % (name, why))
            os._exit(LEFT_OUT)


def receive(channel):
    """(environment, descriptors), or None: the launcher is gone."""
    fds = array.array("i")
    data, control, _, _ = channel.recvmsg(1 << 17, socket.CMSG_SPACE(2 * fds.itemsize))
    if not data:
        return None
    for level, kind, part in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(part[:len(part) - len(part) % fds.itemsize])
    return [one.decode("utf-8", "surrogateescape") for one in data.split(b"\0") if one], list(fds)


def become_rank(environment, fds):
    for one in environment:
        name, _, value = one.partition("=")
        os.environ[name] = value
    os.dup2(fds[0], 1)
    os.dup2(fds[1], 2)
    for fd in fds:
        os.close(fd)
    here = os.path.dirname(os.path.abspath(__file__))
    name = "_lockstep_attached"
    try:
        if os.environ.get("LOCKSTEP_ATTACH") == "0":
            return
        from importlib import import_module
        package = sys.modules.get(name)
        if package is None:
            from importlib.util import module_from_spec, spec_from_file_location
            spec = spec_from_file_location(name, os.path.join(here, "__init__.py"), submodule_search_locations=[here])
            package = sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(package)
            import_module(name + "._names").install()
        import_module(name + "._attach").attach()
    except Exception as error:
        if os.environ.get("LOCKSTEP_DEBUG") == "1":
            sys.stderr.write("lockstep: python: not attached: %r\n" % (error,))


def run(script, arguments):
    sys.argv[:] = [script] + arguments
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    main = type(sys)("__main__")
    main.__file__ = script
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    exec(code, main.__dict__)


def main():
    channel = socket.socket(fileno=os.dup(1))
    os.set_inheritable(channel.fileno(), False)
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    path, script, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    sys.path[0] = os.path.dirname(os.path.realpath(script))  # some modules are beside the script
    slow_down(not HURRY)
    import_all(path)
    slow_down(False)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    channel.send(b"ready")
    message = receive(channel)
    channel.close()
    if message is None or len(message[1]) != 2:
        return
    become_rank(*message)
    run(script, arguments)


main()
