# SPDX-License-Identifier: Apache-2.0
"""Who may say yes, for whom, until when; and what a flood of questions does to those who answer."""
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import ASK, Hook, until  # noqa: E402

LARGE = 400 << 10
MIB = 1 << 20


@pytest.fixture(scope="module", params=["self: true", "self: false"])
def asking(request, tmp_path_factory):
    policy = tmp_path_factory.mktemp("policy") / "ask.yaml"
    policy.write_text(ASK.read_text().replace("self: true", request.param))
    policy.parent.chmod(0o755)
    policy.chmod(0o644)
    with brigd.running(policy=policy) as d:
        d.token("asker", "run")
        d.token("both", "run,approve")
        d.token("first", "approve")
        yield d


@pytest.fixture
def fresh():
    """One that has no questions yet."""
    with brigd.running(policy=ASK, tcp=False) as d:
        d.token("asker", "run")
        d.token("first", "approve")
        yield d


@pytest.fixture(autouse=True)
def residue(subreaper):
    """In the place of conftest's: the daemons outlive a test, and are looked after when they stop."""
    with brigd.no_descriptors_left():
        yield


def ask(d, code="echo ran", language="shell", **kw):
    which = d.submit(code, language, **kw)
    return which, d.waiting(which)


def drop(d, which):
    d.delete("/executions/" + which).expect(200)
    d.result(which)


def large(i):
    """Harmless, and quick to judge."""
    return "echo %d\n#%s\n" % (i, "x" * LARGE)


# --- nobody uses his own yes ----------------------------------------------------------------------

def yes_of_both(d, code, **answer):
    """`both` puts its own code in the place of somebody's, and remembers that."""
    which, approval = ask(d, "echo theirs", token=d.token("asker"), session_id="s")
    d.answer(approval, token=d.token("both"), code=code, **answer).expect(200)
    assert d.result(which)["state"] == "finished"
    return approval


@pytest.mark.parametrize("scope", ["digest", "session"])
def test_a_token_does_not_run_under_its_own_yes(asking, scope):
    code = "echo mine by " + scope
    approval = yes_of_both(asking, code, scope=scope)
    which, again = ask(asking, code, token=asking.token("both"), session_id="s")
    assert again != approval and "running" not in asking.states(which)
    drop(asking, which)
    other = asking.execute(code, "shell", token=asking.token("asker"), session_id="s")
    assert other["state"] == "finished" and other["approval_id"] == approval, "it stands for others"
    asking.delete("/approvals/" + approval).expect(200)


def test_nor_under_that_of_another_token_of_its_name(asking):
    code = "echo mine once more"
    approval = yes_of_both(asking, code, scope="digest")
    asking.brig("token", "rm", "both")
    asking.tokens.pop("both")
    which, again = ask(asking, code, token=asking.token("both", "run,approve"))
    assert again != approval
    drop(asking, which)
    asking.delete("/approvals/" + approval).expect(200)


# --- a token that is gone -------------------------------------------------------------------------

def ends(events):
    """The stream ends as it should, within the time of the wire."""
    for _ in events:
        pass
    return True


def test_a_removed_token_answers_no_more(asking):
    boss = asking.token("boss", "approve")
    which, approval = ask(asking, "echo boss", token=asking.token("asker"))
    with asking.ws("/approvals/ws", token=boss) as ws:
        ws.until(lambda m: m["type"] == "request" and m["approval"]["id"] == approval)
        asking.brig("token", "rm", "boss")
        asking.tokens.pop("boss")
        ws.send({"type": "answer", "ref": "1", "id": approval, "decision": "allow"})
        assert ws.closed_with() == 1008
    assert asking.status(which)["state"] == "waiting"
    drop(asking, which)


def test_a_removed_token_hears_no_more(asking):
    spy = asking.token("spy", "approve,read")
    events, rows = asking.stream("/events", token=spy)
    with asking.ws("/approvals/ws", token=spy) as ws, asking.ws("/events", token=spy) as socket, events:
        assert ws.message()["type"] == "hello"
        asking.brig("token", "rm", "spy")
        asking.tokens.pop("spy")
        begun = time.monotonic()
        assert ws.closed_with() == 1008 and socket.closed_with() == 1008 and ends(rows)
        assert time.monotonic() - begun < 5


def test_an_expired_token_hears_no_more(asking):
    soon = asking.token("soon", "run,read", "--expires", "2s")
    which, _ = ask(asking, "echo long", token=soon)
    events, rows = asking.stream("/events", token=soon)
    watch, states = asking.stream("/executions/%s/events" % which, token=soon)
    with events, watch:
        assert ends(rows) and ends(states)
    asking.tokens.pop("soon")
    assert asking.status(which)["state"] == "waiting", "the run is not the reader's"
    drop(asking, which)


def test_others_hear_on(asking):
    asking.token("gone", "approve")
    with asking.ws("/approvals/ws", token=asking.token("first")) as ws, asking.ws("/approvals/ws") as own:
        asking.brig("token", "rm", "gone")
        asking.tokens.pop("gone")
        time.sleep(2.5)
        which, approval = ask(asking, "echo on", token=asking.token("asker"))
        for w in (ws, own):
            w.until(lambda m: m["type"] == "request" and m["approval"]["id"] == approval)
    drop(asking, which)


# --- many and large questions ---------------------------------------------------------------------

def requests(ws, n):
    """The jobs of so many questions, in the order they came."""
    jobs = []
    while len(jobs) < n:
        m = ws.message()
        if m["type"] == "request":
            assert len(m["code"]) > LARGE, m["approval"]
            jobs.append(m["approval"]["job"])
    return jobs


def test_large_questions_reach_who_comes_later(fresh):
    asked = [ask(fresh, large(i), token=fresh.token("asker"))[0] for i in range(4)]
    with fresh.ws("/approvals/ws", token=fresh.token("first")) as ws:
        assert ws.message()["type"] == "hello"
        assert sorted(requests(ws, 4)) == sorted(asked)
        which, approval = ask(fresh, "echo then", token=fresh.token("asker"))
        m = ws.message()
        assert m["type"] == "request" and m["approval"]["id"] == approval, "once each, and then the new one"
        fresh.answer(approval, "deny").expect(200)
        assert ws.message()["type"] == "settled"


def test_large_questions_reach_who_reads_slowly(fresh):
    """What has no room waits in the record, in its order, and nothing comes twice."""
    with fresh.ws("/approvals/ws", token=fresh.token("first")) as ws:
        asked = [ask(fresh, large(i), token=fresh.token("asker"))[0] for i in range(6)]
        for which in asked[:3]:
            drop(fresh, which)
        seen = []
        while len(seen) < 10:
            m = ws.message()
            seen.append((m["type"], m["approval"]["job"] if "approval" in m else None))
        assert seen == ([("hello", None)] + [("request", a) for a in asked] +
                        [("settled", a) for a in asked[:3]])
        ws.send({"type": "answer", "ref": "1", "id": fresh.waiting(asked[5]), "decision": "deny"})
        ws.until(lambda m: m["type"] == "answered")
        ws.until(lambda m: m["type"] == "settled")


def test_what_was_settled_while_somebody_read_is_no_question(fresh):
    asked = [ask(fresh, large(i), token=fresh.token("asker"))[0] for i in range(6)]
    with fresh.ws("/approvals/ws", token=fresh.token("first")) as ws:
        assert ws.message()["type"] == "hello"
        for which in asked:
            drop(fresh, which)
        settled = set()
        while len(settled) < 6:
            m = ws.message()
            if m["type"] == "settled":
                settled.add(m["approval"]["job"])
            else:
                assert m["approval"]["state"] == "waiting" and m["approval"]["job"] not in settled


def test_waiting_requests_have_a_bound_in_bytes(fresh):
    """Whatever sessions they name. What waits for nobody is not refused."""
    body = "x" * int(15.5 * MIB)
    before, asked, refused = fresh.rss(), [], None
    for i in range(8):
        reply = fresh.post("/executions", fresh.request("echo %d" % i, "shell", stdin=body, session_id="s%d" % i),
                           token=fresh.token("asker"))
        if reply.status == 429:
            assert int(reply.header("retry-after")) >= 1 and reply.error["code"] == "busy"
            refused = reply
            break
        asked.append(reply.expect((200, 202)).json["execution_id"])
    assert refused and asked
    assert fresh.rss() - before < 200 * MIB
    small = fresh.submit("echo small", "shell", token=fresh.token("asker"))
    fresh.waiting(small)
    denied = fresh.execute(":(){ :|:& };:", "shell", stdin=body)
    assert denied["state"] == "denied", "the policy denies it, and nobody is asked"
    for which in asked:
        drop(fresh, which)
    time.sleep(2)
    which, _ = ask(fresh, "echo again", stdin=body)
    drop(fresh, which)


# --- a yes that stands is no question -------------------------------------------------------------

@pytest.fixture
def hook():
    with brigd.hook_server() as url:
        yield url


def test_only_what_waits_is_asked_again(hook):
    d = brigd.Daemon(policy=ASK, tcp=False, config={"webhooks": [{"url": hook, "events": ["approvals"]}]})
    try:
        d.start()
        which, stands = ask(d, "echo stands")
        d.answer(stands, scope="digest").expect(200)
        d.result(which)
        _, waits = ask(d, "echo waits")
        with d.ws("/approvals/ws") as ws:
            assert ws.message()["type"] == "hello"
            m = ws.message()
            assert m["approval"]["id"] == waits and m["approval"]["state"] == "waiting", m["approval"]
        until(lambda: len([g for g in Hook.got if waits.encode() in g]) == 1, "it is told")
        d.stop()
        Hook.got.clear()
        d.start()
        until(lambda: [g for g in Hook.got if waits.encode() in g], "it is told again")
        time.sleep(1)
        assert not [g for g in Hook.got if stands.encode() in g], Hook.got
        d.stop()
    finally:
        d.clean()


# --- keys -----------------------------------------------------------------------------------------

def test_a_key_stands_for_an_answer_that_counted(asking):
    key = [("Idempotency-Key", "answer-1")]
    which, approval = ask(asking, "echo keys", token=asking.token("asker"))
    path, first = "/approvals/" + approval, asking.token("first")
    asking.post(path, {"decision": "perhaps"}, token=first, headers=key).refused(400, "invalid")
    denied = asking.post(path, {"decision": "deny"}, token=first, headers=key).expect(200).json
    assert denied["state"] == "denied"
    again = asking.post(path, {"decision": "deny"}, token=first, headers=key).expect(200).json
    assert again["state"] == "denied" and again["answered_by"] == denied["answered_by"]
    asking.post(path, {"decision": "allow"}, token=first, headers=key).refused(409, "conflict")
    assert asking.result(which)["state"] == "denied"
    assert len([r for r in asking.rows(name="approval.denied") if r["job"] == which]) == 1


def test_a_key_of_an_answer_that_came_too_late_stands_for_nothing(asking):
    key = [("Idempotency-Key", "answer-2")]
    which, approval = ask(asking, "echo late", token=asking.token("asker"))
    asking.answer(approval, "deny").expect(200)
    for _ in range(2):
        asking.post("/approvals/" + approval, {"decision": "allow"}, token=asking.token("first"),
                    headers=key).refused(409, "conflict")
    asking.result(which)
    which, approval = ask(asking, "echo in time", token=asking.token("asker"))
    asking.post("/approvals/" + approval, {"decision": "deny"}, token=asking.token("first"),
                headers=key).expect(200)
    asking.result(which)


@pytest.mark.parametrize("fields", [{"session_id": "two"}, {"labels": ["b"]}, {"labels": []}, {"session_id": None}],
                         ids=str)
def test_a_key_is_for_one_session_and_its_labels(fields):
    with brigd.running(tcp=False) as d:
        key, same = [("Idempotency-Key", "k")], {"session_id": "one", "labels": ["a"]}
        d.execute("echo 1", "shell", headers=key, **same)
        other = {k: v for k, v in dict(same, **fields).items() if v is not None}
        for path in ("/execute", "/executions"):
            d.post(path, d.request("echo 1", "shell", **other), headers=key).refused(409, "conflict")
        reply = d.post("/execute", d.request("echo 1", "shell", **same), headers=key).expect(200)
        assert reply.header("brig-replayed") == "true"
