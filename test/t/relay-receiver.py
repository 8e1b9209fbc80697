# SPDX-License-Identifier: Apache-2.0
"""relay-receiver.py MODE WHERE FORMAT OUT [DROP] - receives what lockstep relay sends and checks the format of every message.

MODE tcp, tls:CERT:KEY or unix; WHERE a file that gets the port, or the path of the socket; FORMAT json or syslog; OUT gets one line
"EVENT RUN TYPE TEXT" for each whole message.  DROP: each connection is reset after so many messages, with more unread.
"""
import json, os, re, socket, ssl, struct, sys

mode, where, form, out = sys.argv[1:5]
drop = int(sys.argv[5]) if len(sys.argv) > 5 else 0
log = open(out, "a", buffering=1, encoding="utf-8")
# RFC 5424: PRI VERSION TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA MSG
VALUE = r'"(?:[^"\\\]]|\\["\\\]])*"'
SYSLOG = re.compile(r'<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z|-) ([!-~]{1,255}) lockstep - ([!-~]{1,32}) '
                    r'\[([!-~]{1,32})((?: [a-z_]{1,32}=' + VALUE + r')*)\] \ufeff(.*)', re.S)

def take_json(line):
    event = json.loads(line)
    assert event["schema"] == 1 and event["type"] in event and event["severity"] and event["text"], line
    log.write(f'{event["event"]} {event["run"] or "-"} {event["type"]} {event["text"]}\n')

def take_syslog(message):
    match = SYSLOG.fullmatch(message)
    assert match, message
    assert int(match[1]) // 8 in (13, 16) and int(match[1]) % 8 in (2, 3, 4, 5, 6), message
    assert len(message.encode()) <= 8192 and "\n" not in message, message
    params = dict(re.findall(r' ([a-z_]+)=(' + VALUE + ")", match[6]))
    log.write(f'{params["event"].strip(chr(34))} {params.get("run", "-").strip(chr(34))} {match[4]} {match[7]}\n')

def messages(read):
    """Whole messages of one connection."""
    rest = b""
    while True:
        if form == "json" and b"\n" in rest:
            line, rest = rest.split(b"\n", 1)
            yield take_json, line.decode()
            continue
        head = re.match(rb"(\d{1,9}) ", rest)
        if form == "syslog" and head and len(rest) >= head.end() + int(head[1]):
            end = head.end() + int(head[1])
            yield take_syslog, rest[head.end():end].decode()
            rest = rest[end:]
            continue
        more = read(512 if drop else 65536)
        if not more:
            return
        rest += more

if mode == "unix":
    server = socket.socket(socket.AF_UNIX)
    server.bind(where)
else:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    with open(where + ".new", "w") as file:
        file.write(str(server.getsockname()[1]))
    os.rename(where + ".new", where)
server.listen()
context = None
if mode.startswith("tls"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*mode.split(":")[1:])
while True:
    connection, _ = server.accept()
    try:
        if context:
            connection = context.wrap_socket(connection, server_side=True)
        for count, (take, message) in enumerate(messages(connection.recv)):
            take(message)
            if drop and count + 1 >= drop:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                break
    except (OSError, ssl.SSLError) as error:
        print(error, file=sys.stderr)
    connection.close()
