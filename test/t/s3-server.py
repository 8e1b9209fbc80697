#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""s3-server - an object store for tests that checks every signature with Amazon's own signer (botocore).

usage: s3-server.py DIRECTORY

Prints its port.  Objects are files of DIRECTORY/objects, requests are lines of DIRECTORY/log.  Answers 403 unless the signature is
the one that botocore makes for the request with the secret of this file, and the body has the digest that was signed.  Keys:
"key", secret "secret/+=word", region "test-1".  DIRECTORY/fail holds "N": the next N uploads of parts are answered with 503;
DIRECTORY/die: the connection is cut after that many parts.
"""
import hashlib
import http.server
import os
import sys
import urllib.parse
from xml.sax.saxutils import escape

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = sys.argv[1]
SECRET = "secret/+=word"
uploads = {}  # id -> (key, {number: bytes})


class Signer(S3SigV4Auth):
    """The signature of a request that came, with the headers and the time that it says."""

    def __init__(self, headers, signed):
        super().__init__(Credentials("key", SECRET), "s3", "test-1")
        self.given, self.signed = headers, signed

    def headers_to_sign(self, request):
        import http.client
        chosen = http.client.HTTPMessage()
        for name in self.signed:
            chosen[name] = self.given[name]
        return chosen

    def payload(self, request):
        return self.given["x-amz-content-sha256"]


def signature_right(method, path, headers, host):
    given = headers.get("Authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        return False
    parts = dict(part.strip().split("=", 1) for part in given[len("AWS4-HMAC-SHA256 "):].split(","))
    signed = parts["SignedHeaders"].split(";")
    if "host" not in signed or "x-amz-content-sha256" not in signed or "x-amz-date" not in signed:
        return False
    if not parts["Credential"].startswith("key/"):
        return False
    plain = {name.lower(): value for name, value in headers.items()}
    request = AWSRequest(method=method, url="http://%s%s" % (host, path))
    request.context["timestamp"] = plain["x-amz-date"]
    signer = Signer(plain, signed)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return signer.signature(text, request) == parts["Signature"]


def number_in(name):
    try:
        return int(open(os.path.join(ROOT, name)).read())
    except (OSError, ValueError):
        return 0


def count_down(name):
    number = number_in(name)
    if number:
        open(os.path.join(ROOT, name), "w").write(str(number - 1))
    return number


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        length = headers.pop("length", len(body))
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, ("<Error><Code>%s</Code><Message>no &amp; never</Message></Error>" % code).encode())

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with open(os.path.join(ROOT, "log"), "a") as log:
            log.write("%s %s %d\n" % (self.command, self.path, len(body)))
        if not signature_right(self.command, self.path, self.headers, self.headers["Host"]):
            return self.refuse(403, "SignatureDoesNotMatch")
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            return self.refuse(400, "XAmzContentSHA256Mismatch")
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        if bucket != "bucket":
            return self.refuse(404, "NoSuchBucket")
        return getattr(self, "on_" + self.command)(key, query, body)

    do_GET = do_PUT = do_POST = do_HEAD = handle_one

    def file(self, key):
        return os.path.join(ROOT, "objects", urllib.parse.quote(key, safe=""))

    def store(self, key, data):
        with open(self.file(key), "wb") as f:
            f.write(data)

    def on_HEAD(self, key, query, body):
        if not os.path.exists(self.file(key)):
            return self.answer(404)
        return self.answer(200, length=os.path.getsize(self.file(key)))

    def on_PUT(self, key, query, body):
        if "uploadId" not in query:
            self.store(key, body)
            return self.answer(200, ETag='"%s"' % hashlib.md5(body).hexdigest())
        if count_down("fail"):
            return self.refuse(503, "SlowDown")
        if number_in("die") and count_down("die") == 1:
            self.close_connection = True
            os._exit(0)
        uploads[query["uploadId"]][1][int(query["partNumber"])] = body
        return self.answer(200, ETag='"%s"' % hashlib.md5(body).hexdigest())

    def on_POST(self, key, query, body):
        if "uploads" in query:
            name = "id/+%d" % len(uploads)
            uploads[name] = (key, {})
            return self.answer(200, ("<R><UploadId>%s</UploadId></R>" % name).encode())
        key, parts = uploads.pop(query["uploadId"])
        text = body.decode()
        for number, data in parts.items():
            if "<PartNumber>%d</PartNumber><ETag>\"%s\"</ETag>" % (number, hashlib.md5(data).hexdigest()) not in text:
                return self.answer(200, b"<Error><Code>InvalidPart</Code></Error>")
        self.store(key, b"".join(parts[number] for number in sorted(parts)))
        return self.answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def on_GET(self, key, query, body):
        if "uploads" in query:
            found = "".join("<Upload><Key>%s</Key><UploadId>%s</UploadId></Upload>" % (escape(k), escape(i))
                            for i, (k, _) in uploads.items() if k.startswith(query["prefix"]))
            return self.answer(200, ("<R>%s</R>" % found).encode())
        if "uploadId" in query:
            return self.parts(uploads[query["uploadId"]][1], int(query.get("part-number-marker", 0)))
        if "list-type" in query:
            return self.list(query)
        if not os.path.exists(self.file(key)):
            return self.refuse(404, "NoSuchKey")
        data = open(self.file(key), "rb").read()
        if "Range" not in self.headers:
            return self.answer(200, data)
        first, last = self.headers["Range"][len("bytes="):].split("-")
        return self.answer(206, data[int(first) : int(last) + 1])

    def parts(self, parts, after):  # two on a page
        numbers = [n for n in sorted(parts) if n > after]
        text = "".join("<Part><PartNumber>%d</PartNumber><ETag>&quot;%s&quot;</ETag><Size>%d</Size></Part>"
                       % (n, hashlib.md5(parts[n]).hexdigest(), len(parts[n])) for n in numbers[:2])
        if len(numbers) > 2:
            text += "<IsTruncated>true</IsTruncated><NextPartNumberMarker>%d</NextPartNumberMarker>" % numbers[1]
        return self.answer(200, ("<R>%s</R>" % text).encode())

    def list(self, query):  # one on a page
        names = {urllib.parse.unquote(name) for name in os.listdir(os.path.join(ROOT, "objects"))}
        prefix = query["prefix"]
        groups = sorted({name[: name.index("/", len(prefix)) + 1] for name in names
                         if name.startswith(prefix) and "/" in name[len(prefix):]})
        at = int(query.get("continuation-token", "+0")[1:])
        text = "".join("<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % escape(g) for g in groups[at : at + 1])
        if at + 1 < len(groups):
            text += "<IsTruncated>true</IsTruncated><NextContinuationToken>+%d</NextContinuationToken>" % (at + 1)
        return self.answer(200, ("<R>%s</R>" % text).encode())


if os.path.exists(os.path.join(ROOT, "uploads")):  # of the server that died
    import pickle
    uploads.update(pickle.load(open(os.path.join(ROOT, "uploads"), "rb")))
real_exit = os._exit


def exit_saved(code):
    import pickle
    pickle.dump(uploads, open(os.path.join(ROOT, "uploads"), "wb"))
    real_exit(code)


os._exit = exit_saved
os.makedirs(os.path.join(ROOT, "objects"), exist_ok=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
open(os.path.join(ROOT, "port"), "w").write(str(server.server_address[1]))
server.serve_forever()
