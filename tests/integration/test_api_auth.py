# SPDX-License-Identifier: Apache-2.0
"""Who may call what (AP-01 to AP-08, AP-15, AP-16, AP-21, AP-23 to AP-26, AP-28).

The routes are those of `brigd --openapi`, so that none is forgotten; who may call which is written
down here once more, from docs/api.md, so that the daemon is not its own judge.
"""
import base64
import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import ID, NO_ID, as_user, until  # noqa: E402

DOCUMENT, OPERATIONS = brigd.operations()
ROUTES = [(method, path) for method, path, _ in OPERATIONS]
PATHS = sorted({path for _, path in ROUTES})
SECRET = "brig_secret_of_the_environment_7319"

# docs/api.md, "Who may": admin may all of it; "" is anybody who is somebody.
SCOPES = {
    "POST /execute": "run", "POST /executions": "run", "GET /executions": "run read",
    "GET /executions/{id}": "run read", "GET /executions/{id}/output": "run read",
    "GET /executions/{id}/files": "run read",
    "GET /executions/{id}/events": "run read", "DELETE /executions/{id}": "run",
    "GET /approvals": "run read approve", "GET /approvals/{id}": "run read approve",
    "POST /approvals/{id}": "approve", "DELETE /approvals/{id}": "approve",
    "GET /approvals/ws": "approve", "POST /risk/assess": "run", "GET /policy": "read",
    "POST /policy/check": "run", "GET /pool": "read", "GET /doctor": "read", "GET /ledger": "read",
    "GET /ledger/verify": "read", "GET /ledger/export": "read", "GET /events": "read",
    "GET /health": "", "GET /ready": "", "GET /capabilities": "", "GET /metrics": "read",
    "GET /openapi.json": "",
}
ADDRESSES = itertools.count(2)


def address():
    """One of the machine's own that nobody asked from yet: failures are counted by address."""
    n = next(ADDRESSES)
    return "127.%d.%d.%d" % (77 + n // 62500, n // 250 % 250 + 1, n % 250 + 1)


def filled(path):
    return path.replace("{id}", NO_ID)


def body_of(method):
    return b"{}" if method == "POST" else None


@pytest.fixture(scope="module")
def daemon():
    config = {"listen": {"socket_mode": "0666"}, "log": {"level": "debug"}}
    with brigd.running(config=config) as d:
        d.admin()
        for scope in ("run", "read", "approve"):
            d.token(scope, scope)
        d.token("other", "run,read")
        yield d


@pytest.fixture(autouse=True)
def residue(subreaper):
    """In the place of conftest's: the daemon outlives a test, and is looked after when it stops."""
    with brigd.no_descriptors_left():
        yield


def test_the_table_of_scopes_has_every_route():
    assert {"%s %s" % route for route in ROUTES} == set(SCOPES)


# --- AP-01: credentials ---------------------------------------------------------------------------

def wrong_credentials(d):
    """name -> (headers, query)."""
    good, admin = d.token("run"), d.admin()
    with brigd.running(tcp=False) as elsewhere:
        foreign = elsewhere.token("admin", "admin")
    expired = d.token("soon", "admin", "--expires", "1s")
    removed = d.token("removed", "admin")
    d.brig("token", "rm", "removed")
    time.sleep(1.1)
    auth = "Authorization"
    basic = base64.b64encode(b"admin:" + admin.encode()).decode()
    flipped = admin[:-1] + ("0" if admin[-1] != "0" else "1")
    middle = admin[:len(admin) // 2] + ("0" if admin[len(admin) // 2] != "0" else "1") + \
        admin[len(admin) // 2 + 1:]
    return {
        "none": ([], ""), "empty": ([(auth, "")], ""), "scheme only": ([(auth, "Bearer")], ""),
        "blank": ([(auth, "Bearer ")], ""), "no scheme": ([(auth, admin)], ""),
        "wrong": ([(auth, "Bearer brig_" + "0" * (len(admin) - 5))], ""),
        "last character": ([(auth, "Bearer " + flipped)], ""),
        "middle character": ([(auth, "Bearer " + middle)], ""),
        "short": ([(auth, "Bearer " + admin[:-1])], ""), "long": ([(auth, "Bearer " + admin + "0")], ""),
        "very long": ([(auth, "Bearer " + "x" * 4000)], ""),
        "upper case": ([(auth, "Bearer " + admin.upper())], ""),
        "two words": ([(auth, "Bearer %s %s" % (admin, admin))], ""),
        "comma": ([(auth, "Bearer %s, Bearer %s" % (admin, admin))], ""),
        "expired": ([(auth, "Bearer " + expired)], ""), "removed": ([(auth, "Bearer " + removed)], ""),
        "of another daemon": ([(auth, "Bearer " + foreign)], ""),
        "basic": ([(auth, "Basic " + basic)], ""), "another scheme": ([(auth, "Token " + admin)], ""),
        "digest": ([(auth, 'Digest username="admin", response="%s"' % admin)], ""),
        "two headers": ([(auth, "Bearer " + admin), (auth, "Bearer " + admin)], ""),
        "a bad one first": ([(auth, "Bearer x"), (auth, "Bearer " + admin)], ""),
        "a bad one last": ([(auth, "Bearer " + good), (auth, "Bearer x")], ""),
        "proxy header": ([("Proxy-Authorization", "Bearer " + admin)], ""),
        "own header": ([("X-Api-Key", admin), ("X-Auth-Token", admin)], ""),
        "cookie": ([("Cookie", "token=%s; Authorization=Bearer %s" % (admin, admin))], ""),
        "query": ([], "?token=" + admin), "query of OAuth": ([], "?access_token=" + admin),
        "query of the header": ([], "?Authorization=Bearer%20" + admin),
    }


@pytest.fixture(scope="module")
def wrong(daemon):
    return wrong_credentials(daemon)


WRONG = [
    "none", "empty", "scheme only", "blank", "no scheme", "wrong", "last character",
    "middle character", "short", "long", "very long", "upper case", "two words", "comma", "expired",
    "removed", "of another daemon", "basic", "another scheme", "digest", "two headers",
    "a bad one first", "a bad one last", "proxy header", "own header", "cookie", "query",
    "query of OAuth", "query of the header"]


@pytest.mark.parametrize("name", WRONG)
def test_AP_01_no_route_without_a_token(daemon, wrong, name):
    headers, query = wrong[name]
    # Two headers of one kind are a wrong form as well, whoever sees it first.
    wanted = (400, 401) if len(headers) == 2 and headers[0][0] == headers[1][0] else (401,)
    for method, path in ROUTES:
        more = headers + (brigd.ws_headers() if path.endswith("/ws") else [])
        reply = daemon.ask(method, filled(path) + query, body_of(method), tcp=True, headers=more,
                           source=address())
        assert reply.status in wanted, (method, path, reply)
        assert reply.error["code"] in ("unauthorized", "invalid"), (method, path, reply)


def test_AP_01_what_is_no_route_tells_nothing_either(daemon):
    for path in ("/", "/nothing", "/executions/%s/files" % NO_ID, "/metrics/", "/static/x.js"):
        for method in ("GET", "POST", "OPTIONS", "PUT", "PROPFIND"):
            daemon.ask(method, path, tcp=True, source=address()).refused(401, "unauthorized")
    for path in ("/", "/metrics", "/mcp", "/docs", "/index.html", "/favicon.ico", "/api", "/api/v2"):
        daemon.ask("GET", path, raw=True, tcp=True, source=address()).refused(401, "unauthorized")


def test_AP_01_a_good_token_passes_every_route(daemon):
    """The control: what was refused above was refused for the credential."""
    for method, path in ROUTES:
        if path == "/events":
            wire, _ = daemon.stream(path, token=daemon.admin(), tcp=True)
            wire.close()
            continue
        reply = daemon.ask(method, filled(path), body_of(method), tcp=True, token=daemon.admin())
        assert reply.status not in (401, 403, 405, 415, 421) and reply.status < 500, (method, path, reply)


def test_AP_01_the_name_of_the_scheme_has_no_case(daemon):
    for scheme in ("bearer", "BEARER", "Bearer"):
        headers = [("Authorization", "%s %s" % (scheme, daemon.admin()))]
        daemon.get("/health", tcp=True, headers=headers).expect(200)


def test_AP_01_a_removed_token_ends_soon(daemon):
    token = daemon.token("short-lived", "read")
    daemon.get("/pool", tcp=True, token=token).expect(200)
    daemon.brig("token", "rm", "short-lived")
    until(lambda: daemon.get("/pool", tcp=True, token=token, source=address()).status == 401, "it is over", 3)


@pytest.mark.parametrize("scope", ["run", "read", "approve"])
def test_AP_01_a_token_has_its_scope_and_no_other(daemon, scope):
    for method, path in ROUTES:
        may = SCOPES["%s %s" % (method, path)].split()
        if path == "/events" and scope in may:
            wire, _ = daemon.stream(path, token=daemon.token(scope), tcp=True)
            wire.close()
            continue
        more = brigd.ws_headers() if path.endswith("/ws") and scope not in may else []
        reply = daemon.ask(method, filled(path), body_of(method), tcp=True, headers=more,
                           token=daemon.token(scope))
        if may and scope not in may:
            assert reply.status == 403 and reply.error["code"] == "forbidden", (method, path, reply)
        else:
            assert reply.status not in (401, 403), (method, path, reply)


def test_AP_01_the_description_names_the_same_scopes():
    for method, path, operation in OPERATIONS:
        told = set(operation.get("x-brig-scopes", [])) - {"admin"}
        assert told == set(SCOPES["%s %s" % (method, path)].split()), (method, path, told)


# --- AP-03, AP-04, AP-07: names and origins -------------------------------------------------------

HOSTS = ["attacker.com", "127.0.0.1.nip.io", "127.0.0.1.nip.io:%d", "localhost.attacker.com",
         "attacker.com:%d", "localhost@attacker.com", "attacker.com@localhost:%d", "user:pw@127.0.0.1:%d",
         "127.0.0.2:%d", "127.1:%d", "0x7f000001:%d", "2130706433:%d", "0.0.0.0:%d", "localhost.:%d",
         "[::1", "[::1%%25eth0]:%d", "[::]:%d", "127.0.0.1:1", "127.0.0.1:%d:%d", "127.0.0.1:0%d",
         "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1:%d/", "127.0.0.1:%d, attacker.com",
         "local host:%d", "brig.attacker.com", "xbrig", "\u0131ocalhost:%d", "*", "null", "unix:"]


@pytest.mark.parametrize("host", HOSTS)
def test_AP_03_only_names_of_ours(daemon, host):
    host = host.replace("%d", str(daemon.port)).replace("%%", "%")
    for tcp in (True, False):
        if tcp is False and host in ("127.0.0.1:1",):
            continue  # a unix socket has no port that could be wrong
        reply = daemon.get("/health", tcp=tcp, token=daemon.admin(), host=host)
        assert reply.status in (400, 403, 421), (tcp, reply)


def test_AP_03_every_route_looks_at_the_host(daemon):
    for method, path in ROUTES:
        more = brigd.ws_headers() if path.endswith("/ws") else []
        reply = daemon.ask(method, filled(path), body_of(method), tcp=True, token=daemon.admin(),
                           headers=more, host="attacker.com")
        assert reply.status in (403, 421) and reply.error["code"] == "forbidden", (path, reply)


@pytest.mark.parametrize("lines", [
    [], ["Host:"], ["Host: "], ["Host: %s", "Host: attacker.com"], ["Host: attacker.com", "Host: %s"],
    ["Host: %s", "Host: %s"], ["Host : %s"], ["Host: %s", "X-Forwarded-Host: attacker.com", "Host: x"],
], ids=" ".join)
def test_AP_03_one_host_and_no_other(daemon, lines):
    head = ["GET /api/v1/health HTTP/1.1", "Authorization: Bearer " + daemon.admin()]
    head += [line.replace("%s", daemon.tcp_host) for line in lines]
    with daemon.connect(tcp=True) as wire:
        wire.send("\r\n".join(head).encode() + b"\r\n\r\n")
        reply = wire.reply()
        assert reply.status in (400, 403, 421), reply


@pytest.mark.parametrize("target", ["http://attacker.com/api/v1/health", "https://127.0.0.1/api/v1/health",
                                    "http://%s/api/v1/health", "//attacker.com/api/v1/health", "*"])
def test_AP_03_a_whole_address_does_not_help(daemon, target):
    target = target.replace("%s", daemon.tcp_host)
    reply = daemon.ask("GET", target, raw=True, tcp=True, token=daemon.admin())
    assert reply.status in (400, 403, 404, 421), reply


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "[::1]", "brig"])
def test_AP_03_our_own_names_pass(daemon, host):
    """The control."""
    daemon.get("/health", host=host).expect(200)
    daemon.get("/health", tcp=True, token=daemon.admin(), host="%s:%d" % (host, daemon.port)).expect(200)


ORIGINS = ["https://attacker.com", "null", "", "http://localhost.evil.com", "http://127.0.0.1:1",
           "http://localhost", "http://127.0.0.1:%d", "http://localhost:%d", "file://", "brig",
           "chrome-extension://abcdefghijklmnop", "http://[::1]:%d", "https://console.example.evil.com",
           "https://console.example:444", "HTTPS://CONSOLE.EXAMPLE ", "https://console.example/x", "*"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_AP_04_no_origin_passes_that_is_not_configured(daemon, origin):
    """Also not our own address: a page on this machine (AP-07) has no more rights than any other."""
    headers = [("Origin", origin.replace("%d", str(daemon.port)))]
    for path in ("/health", "/pool", "/events"):
        reply = daemon.get(path, tcp=True, token=daemon.admin(), headers=headers)
        assert reply.status == 403 and reply.error["code"] == "forbidden", reply
    daemon.get("/health", headers=headers).refused(403, "forbidden")
    daemon.post("/execute", daemon.request(), headers=headers).refused(403, "forbidden")


def test_AP_04_every_route_looks_at_the_origin(daemon):
    for method, path in ROUTES:
        more = brigd.ws_headers() if path.endswith("/ws") else []
        reply = daemon.ask(method, filled(path), body_of(method), tcp=True, token=daemon.admin(),
                           headers=[("Origin", "https://attacker.com")] + more)
        assert reply.status == 403 and reply.error["code"] == "forbidden", (path, reply)


def test_AP_04_configured_names_and_origins_pass():
    """The control, and nothing but the configured ones."""
    config = {"hosts": ["console.example"], "origins": ["https://console.example"]}
    with brigd.running(config=config) as d:
        headers = [("Origin", "https://console.example")]
        d.get("/health", headers=headers).expect(200)
        d.get("/health", host="console.example").expect(200)
        d.get("/health", host="evil.example").expect((403, 421))
        for origin in ("http://console.example", "https://console.example.evil.com", "null",
                       "https://console.example:8443", "https://xconsole.example"):
            d.get("/health", headers=[("Origin", origin)]).refused(403, "forbidden")
        d.get("/health", headers=headers * 2).expect((400, 403))
        d.get("/health", tcp=True, headers=headers).refused(401)


# --- AP-05, AP-06, AP-08: browsers ----------------------------------------------------------------

@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None, "", "text/json",
                                  "multipart/form-data; boundary=x", "application/jsonx",
                                  "application/json-patch+json", "text/plain; application/json",
                                  "application/xml"])
def test_AP_05_a_form_is_no_request(daemon, kind):
    rows = len(daemon.rows())
    for method, path, operation in OPERATIONS:
        if "requestBody" not in operation:
            continue
        body = json.dumps(daemon.request()).encode()
        daemon.ask(method, filled(path), body, kind=kind).refused(415, "media_type")
    assert len(daemon.rows()) == rows


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON", "application/json; charset=utf-8",
                                  "application/json;charset=UTF-8"])
def test_AP_05_json_is(daemon, kind):
    """The control."""
    daemon.ask("POST", "/risk/assess", {"language": "shell", "code": "echo 1"}, kind=kind).expect(200)


def test_AP_05_looking_changes_nothing(daemon):
    """Not one row comes of all the GETs, and what runs goes on."""
    which = daemon.submit("import time\ntime.sleep(60)")
    daemon.reach(which, "running")
    rows = daemon.rows()
    for method, path in ROUTES:
        if method != "GET" or path in ("/events", "/executions/{id}/events", "/approvals/ws"):
            continue
        for query in ("", "?_method=DELETE", "?method=POST", "?decision=allow"):
            reply = daemon.get(path.replace("{id}", which) + query)
            assert reply.status in (200, 400, 404), (path, query, reply)
    daemon.get("/execute").refused(405)
    assert daemon.status(which)["state"] == "running" and daemon.rows() == rows
    daemon.delete("/executions/" + which).expect(200)
    assert daemon.result(which)["state"] == "cancelled"


WS_PATHS = ["/approvals/ws", "/events"]


@pytest.mark.parametrize("path", WS_PATHS)
def test_AP_06_a_websocket_needs_what_others_need(daemon, path):
    admin = daemon.admin()
    for more, query, status in (
            ([], "", 401), ([], "?token=" + admin, 401), ([("Authorization", "Bearer x")], "", 401),
            ([("Sec-WebSocket-Protocol", "bearer, " + admin)], "", 401),
            ([("Authorization", "Bearer " + admin), ("Origin", "https://attacker.com")], "", 403),
            ([("Authorization", "Bearer " + admin), ("Origin", "null")], "", 403),
            ([("Authorization", "Bearer " + daemon.token("run"))], "", 403)):
        wire = daemon.connect(tcp=True, source=address())
        wire, reply = daemon.ws_try(path + query, tcp=True, more=more, wire=wire)
        wire.close()
        assert reply.status == status, (more, query, reply)
    wire, reply = daemon.ws_try(path, tcp=True, token=admin, host="attacker.com")
    wire.close()
    assert reply.status in (403, 421), reply


@pytest.mark.parametrize("change", [
    {"Sec-WebSocket-Version": "12"}, {"Sec-WebSocket-Version": "014"}, {"Sec-WebSocket-Version": None},
    {"Sec-WebSocket-Key": None}, {"Sec-WebSocket-Key": ""}, {"Sec-WebSocket-Key": "short"},
    {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ"}, {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZSBsb25n"},
    {"Sec-WebSocket-Key": "****************======"}, {"Connection": "keep-alive"}, {"Connection": None},
    {"Upgrade": "h2c"}, {"Upgrade": None},
], ids=str)
def test_AP_06_a_wrong_handshake_is_refused(daemon, change):
    headers = dict(brigd.ws_headers(), **{k: v for k, v in change.items() if v is not None})
    for name in [k for k, v in change.items() if v is None]:
        del headers[name]
    wire, reply = daemon.ws_try("/approvals/ws", headers=list(headers.items()))
    wire.close()
    assert reply.status in (400, 426), reply
    if "Sec-WebSocket-Version" in change and reply.status == 426:
        assert reply.header("sec-websocket-version") == "13", reply


def test_AP_06_a_right_one_passes(daemon):
    """The control."""
    for path in WS_PATHS:
        with daemon.ws(path, tcp=True, token=daemon.admin()):
            pass
    with daemon.ws("/approvals/ws") as ws:
        assert ws.message()["type"] == "hello"


def test_AP_08_nobody_is_told_that_he_may_come_across(daemon):
    asks = [("Origin", "https://attacker.com"), ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization, content-type"),
            ("Access-Control-Request-Private-Network", "true")]
    for path in PATHS:
        for method in ("OPTIONS", "GET", "POST"):
            for token in (None, daemon.admin()):
                reply = daemon.ask(method, filled(path), body_of(method), tcp=True, headers=asks,
                                   token=token, source=address())
                assert 400 <= reply.status < 500, (method, path, reply)
                assert not [n for n, _ in reply.headers if n.startswith("access-control-")], reply


# --- AP-15: methods -------------------------------------------------------------------------------

def test_AP_15_a_path_has_its_methods_and_no_others(daemon):
    for path in PATHS:
        have = {m for m, p in ROUTES if p == path}
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND",
                       "BREW"):
            if method in have:
                continue
            reply = daemon.ask(method, filled(path), headers=[("X-Echo", "echo-me")])
            assert reply.status == 405 and b"echo-me" not in reply.body, (method, path, reply)
            assert {m.strip() for m in reply.header("allow", "").split(",")} == have, (path, reply)
            if method != "HEAD":
                assert reply.error["code"] == "method", reply


def test_AP_15_a_header_does_not_change_the_method(daemon):
    which = daemon.submit("import time\ntime.sleep(60)")
    daemon.reach(which, "running")
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method"):
        daemon.get("/executions/" + which, headers=[(name, "DELETE")]).expect(200)
        daemon.get("/execute", headers=[(name, "POST")]).refused(405)
        daemon.post("/executions/" + which, b"{}", headers=[(name, "DELETE")]).refused(405)
    assert daemon.status(which)["state"] == "running"
    daemon.delete("/executions/" + which).expect(200)


@pytest.mark.parametrize("target", ["127.0.0.1:22", "localhost:80", "/api/v1/health", "attacker.com:443"])
def test_AP_15_connect_is_never_a_proxy(daemon, target):
    for tcp in (True, False):
        reply = daemon.ask("CONNECT", target, raw=True, tcp=tcp, token=daemon.admin())
        assert reply.status in (400, 404, 405, 501), reply


# --- AP-16, AP-21: what is another's --------------------------------------------------------------

def test_AP_16_anothers_execution_is_not_there(daemon):
    mine = daemon.submit("import time\nprint(1, flush=True)\ntime.sleep(60)", token=daemon.token("run"))
    stranger = daemon.token("stranger", "run")
    daemon.reach(mine, "running")
    seen = []
    for which in (mine, NO_ID):
        for method, path in (("GET", ""), ("GET", "/output"), ("GET", "/output?stream=stdout&offset=0"),
                             ("GET", "/events"), ("GET", "?wait=1"), ("DELETE", "")):
            reply = daemon.ask(method, "/executions/%s%s" % (which, path), token=stranger, tcp=True)
            reply.refused(404, "not_found")
            seen.append(reply.body.replace(mine.encode(), NO_ID.encode()))
    assert seen[:6] == seen[6:], "the answers tell which of the two is there"
    listed = daemon.get("/executions", token=stranger).expect(200).json["executions"]
    assert mine not in [e["execution_id"] for e in listed]
    for token in (daemon.token("run"), daemon.token("read"), daemon.admin(), None):
        assert daemon.status(mine, token=token)["state"] == "running"  # the control
    daemon.delete("/executions/" + mine, token=daemon.token("read")).refused((403, 404))
    assert daemon.status(mine)["state"] == "running"
    daemon.delete("/executions/" + mine, token=daemon.token("run")).expect(200)
    assert daemon.result(mine)["state"] == "cancelled"


def test_AP_16_an_admin_may_end_what_is_anothers(daemon):
    mine = daemon.submit("import time\ntime.sleep(60)", token=daemon.token("run"))
    daemon.delete("/executions/" + mine, token=daemon.admin(), tcp=True).expect(200)
    assert daemon.result(mine)["state"] == "cancelled"


def test_AP_16_to_read_is_not_to_end(daemon):
    """Who may see everybody's runs, and has runs of his own, still cannot end another's."""
    mine = daemon.submit("import time\ntime.sleep(60)", token=daemon.token("run"))
    daemon.reach(mine, "running")
    daemon.get("/executions/" + mine, token=daemon.token("other")).expect(200)
    daemon.delete("/executions/" + mine, token=daemon.token("other")).refused(404, "not_found")
    assert daemon.status(mine)["state"] == "running"
    daemon.delete("/executions/" + mine).expect(200)
    daemon.result(mine)


def test_AP_16_an_old_token_is_not_the_new_one_of_its_name(daemon):
    old = daemon.token("again", "run")
    daemon.brig("token", "rm", "again")
    del daemon.tokens["again"]
    assert daemon.token("again", "run") != old
    daemon.get("/health", token=old, tcp=True, source=address()).refused(401)
    daemon.get("/health", token=daemon.token("again"), tcp=True).expect(200)


def test_AP_16_ids_cannot_be_guessed(daemon):
    ids = [daemon.submit("echo 1", "shell") for _ in range(24)]
    assert all(re.fullmatch(ID, i) for i in ids) and len(set(ids)) == 24
    assert len({i[:4] for i in ids}) > 16 and len({i[-4:] for i in ids}) > 16
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    with daemon.connect() as wire:
        for n in range(300):
            guess = "".join(alphabet[b % 32] for b in os.urandom(26)) if n % 2 else \
                ids[n % 24][:-1] + alphabet[(alphabet.index(ids[n % 24][-1]) + 1) % 32]
            if guess not in ids:
                daemon.get("/executions/" + guess, wire=wire).refused(404, "not_found")
    for which in ids:
        daemon.result(which)


@pytest.mark.parametrize("which", ["1", "0" * 25, "0" * 27, "0" * 63, "0" * 64, "0" * 4000, "A" * 26, "-" * 26,
                                   "%30" * 26, "*", "..", "null"])
def test_AP_16_what_cannot_be_an_id_is_not_there(daemon, which):
    for path in ("/executions/" + which, "/executions/%s/output" % which, "/approvals/" + which):
        daemon.get(path).refused(404, "not_found")
    daemon.delete("/executions/" + which).refused(404, "not_found")


def test_AP_21_streams_of_others_are_not_there(daemon):
    mine = daemon.submit("print('mine')", token=daemon.token("run"))
    daemon.result(mine)
    for query in ("", "?after=0", "?after=1", "?stream=stdout&offset=0"):
        for part in ("events", "output"):
            daemon.get("/executions/%s/%s%s" % (mine, part, query), tcp=True,
                       token=daemon.token("stranger", "run")).expect((404, 400))
    daemon.get("/executions/%s/events" % mine, token=daemon.token("stranger"),
               headers=[("Last-Event-ID", "1")]).refused(404)
    for after in ("", "?after=0", "?job=" + mine):
        daemon.get("/events" + after, token=daemon.token("run"), tcp=True).refused(403, "forbidden")
    assert daemon.get("/executions/%s/output" % mine, token=daemon.token("run")).expect(200).body == b"mine\n"


# --- AP-23, AP-24, AP-25: sockets -----------------------------------------------------------------

def test_AP_23_sockets_and_state_are_for_one_alone():
    with brigd.running(tcp=False) as d:
        assert stat.S_IMODE(d.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(d.state.stat().st_mode) == 0o700
        d.token("x", "run")
        d.execute(headers=[("Idempotency-Key", "k")])
        for path in d.state.rglob("*"):
            assert not stat.S_IMODE(path.lstat().st_mode) & 0o077, path


def listening(pid):
    """Addresses of the TCP sockets that a process listens on."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
        except OSError:
            continue
    found = []
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and "socket:[%s]" % words[9] in inodes:
                found.append(words[1])
    return found


def test_AP_24_by_default_there_is_no_port(daemon):
    with brigd.running(tcp=False) as d:
        assert listening(d.pid) == []
    assert listening(daemon.pid) == ["0100007F:%04X" % daemon.port]  # the control


@pytest.mark.parametrize("address_of", ["0.0.0.0:%d", "[::]:%d", ":%d", "*:%d", "localhost:%d",
                                        "255.255.255.255:%d", "127.0.0.1:0", "127.0.0.1", "127.0.0.1:99999"])
def test_AP_24_other_addresses_must_be_meant(tmp_path, address_of):
    text = address_of.replace("%d", str(brigd.free_port()))
    done = subprocess.run([brigd.BRIGD, "--state-dir", str(tmp_path), "--socket", str(tmp_path / "s"),
                           "--listen", text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode not in (0, None) and done.returncode > 0, done
    assert done.stderr.strip(), done


def test_AP_24_even_meant_it_needs_a_token():
    d = brigd.Daemon(tcp=False)
    try:
        d.args = ["--listen", "0.0.0.0:%d" % brigd.free_port(), "--allow-remote"]
        d.start(ready=False)
        assert d.wait() > 0 and "token" in d.logged, d.logged
        d.token("first", "read")
        d.start()
        assert len(listening(d.pid)) == 1
        d.stop()
    finally:
        d.clean()


def ask_as(uid, d, path, token=None):
    """The status that another user of this machine gets."""
    argv = as_user(uid) + ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "30",
                           "--unix-socket", str(d.socket), "http://localhost/api/v1" + path]
    argv += ["-H", "Authorization: Bearer " + token] if token else []
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    return done.stdout.decode()


@pytest.mark.needs_root
def test_AP_25_another_user_needs_a_token(daemon):
    for method, path in ROUTES:
        if method == "GET":
            assert ask_as(4711, daemon, filled(path)) == "401", path
    assert ask_as(4711, daemon, "/pool", daemon.token("read")) == "200"
    assert ask_as(4711, daemon, "/pool", daemon.token("run")) == "403"
    assert ask_as(4711, daemon, "/pool", "brig_wrong") in ("401", "429")


@pytest.mark.needs_root
def test_AP_25_a_closed_socket_is_closed_to_others():
    with brigd.running(tcp=False) as d:
        assert ask_as(4711, d, "/health") == "000"


@pytest.mark.needs_root
def test_AP_25_root_and_the_daemons_user_are_known():
    with brigd.running(user=True, config={"listen": {"socket_mode": "0666"}}) as d:
        assert ask_as(brigd.USER_ID, d, "/pool") == "200" and ask_as(4711, d, "/pool") == "401"
        d.get("/pool").expect(200)
        assert d.execute("print(1)")["stdout"] == "1\n"


# --- AP-26: rates ---------------------------------------------------------------------------------

def test_AP_26_a_token_has_its_own_rate(daemon):
    slow = daemon.token("slow", "run", "--rate", "1")
    replies = [daemon.post("/execute", daemon.request("echo 1", "shell"), token=slow, tcp=True)
               for _ in range(12)]
    busy = [r for r in replies if r.status == 429]
    assert busy and {r.status for r in replies} == {200, 429}, replies
    for reply in busy:
        assert reply.error["code"] == "busy" and 1 <= int(reply.header("retry-after")) <= 60, reply
    assert daemon.post("/execute", daemon.request("echo 1", "shell"), tcp=True,
                       token=daemon.token("run")).expect(200).json["success"]
    daemon.get("/health", token=slow).expect(200)


def test_AP_26_a_token_has_its_own_bound_of_runs(daemon):
    token = daemon.token("few", "run", "--concurrent", "2")
    sleep = daemon.request("sleep 60", "shell")
    ids = [daemon.post("/executions", sleep, token=token).expect(202).json["execution_id"]
           for _ in range(2)]
    rows = len(daemon.rows(name="received"))
    reply = daemon.post("/executions", sleep, token=token)
    assert reply.refused(429, "busy") and int(reply.header("retry-after")) >= 1
    assert len(daemon.rows(name="received")) == rows, "it was started none the less"
    daemon.delete("/executions/" + ids[0], token=token).expect(200)
    daemon.result(ids[0])
    third = until(lambda: [r for r in [daemon.post("/executions", sleep, token=token)]
                           if r.status == 202], "one may run again")[0].json["execution_id"]
    for which in (ids[1], third):
        daemon.delete("/executions/" + which, token=token).expect(200)
        daemon.result(which)


def test_AP_26_failures_are_slowed_and_lock_nobody_out(daemon):
    here = address()
    statuses = [daemon.get("/health", token="brig_wrong", tcp=True, source=here).status for _ in range(60)]
    assert statuses[0] == 401 and statuses[-1] == 429 and set(statuses) == {401, 429}, statuses
    reply = daemon.get("/health", token="brig_wrong", tcp=True, source=here)
    assert reply.refused(429, "busy") and int(reply.header("retry-after")) >= 1
    for _ in range(5):
        daemon.get("/health", token=daemon.admin(), tcp=True, source=here).expect(200)
    assert daemon.get("/health", token="brig_wrong", tcp=True, source=address()).status == 401


def test_AP_26_many_at_once_are_counted_right(daemon):
    token = daemon.token("burst", "run", "--rate", "2")
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        got = list(threads.map(lambda _: daemon.post(
            "/execute", daemon.request("echo 1", "shell"), token=token, tcp=True).status, range(40)))
    passed = got.count(200)
    assert set(got) == {200, 429} and passed <= 4 + 2 * (time.monotonic() - begin) + 1, got


# --- AP-28: what is written down ------------------------------------------------------------------

def test_AP_28_secrets_are_nowhere(daemon, wrong):
    """After all the tests above: neither tokens nor secrets of the environment are in the log, and
    no token is in the state directory."""
    daemon.execute("import os\nprint(len(os.environ['KEY']))", env={"KEY": SECRET})
    daemon.post("/execute", daemon.request(env={"KEY": SECRET}, nonsense=1)).expect(400)
    daemon.post("/execute", daemon.request(env={"LD_PRELOAD": SECRET})).expect(400)
    log = daemon.logged
    for name, token in daemon.tokens.items():
        assert token not in log and token[18:] not in log, name
        assert not any(token.encode() in r.body for r in daemon.errors), name
    assert SECRET not in log and not any(SECRET.encode() in r.body for r in daemon.errors)
    for path in [p for p in daemon.state.rglob("*") if p.is_file()]:
        data = path.read_bytes()
        for name, token in daemon.tokens.items():
            assert token.encode() not in data and token[18:].encode() not in data, (path, name)
    assert b"admin" in (daemon.state / "tokens.json").read_bytes()  # the control: that is where they are
