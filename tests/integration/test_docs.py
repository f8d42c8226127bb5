# SPDX-License-Identifier: Apache-2.0
"""The documents against the program: what can be compared is compared, so that neither drifts."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKDOWN = sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md"))
MAN_PAGE = ROOT / "man" / "brig.1"
MAN_PAGES = sorted(ROOT.glob("man/*.[1-9]"))
OPTION = re.compile(r"(?<![-\w])--?[a-z][a-z-]*")


@pytest.fixture(autouse=True)
def residue():
    """Instead of the look at the host after each test: nothing here makes a box."""


def read(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def man_source(page=MAN_PAGE):
    """A manual page without font changes and with plain hyphens."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"\\f[A-Z]", "", text).replace("\\-", "-").replace("\\(aq", "'")


def man_section(title, page=MAN_PAGE):
    found = re.search(r"^\.SH %s\n(.*?)(?=^\.SH |\Z)" % re.escape(title), man_source(page), re.M | re.S)
    assert found, "%s has no section %s" % (page.name, title)
    return found.group(1)


def man_entries(title, page=MAN_PAGE):
    """Tag line -> text of each .TP in a section."""
    parts = re.split(r"^\.TP\n", man_section(title, page), flags=re.M)[1:]
    return dict(part.split("\n", 1) for part in parts)


def option_entries(title, page=MAN_PAGE):
    """Option -> text, for every option in the tag lines of a section."""
    return {option: text for tag, text in man_entries(title, page).items() for option in OPTION.findall(tag)}


def man_options(title):
    return set(option_entries(title))


def words(tag):
    """The words of a tag line, without the macro and the quotes."""
    return re.findall(r"[-\w+]+", re.sub(r"^\.[A-Z]+ ", "", tag))


def table(path, macro):
    """The rows of an X-macro: lists of arguments as written, strings without their quotes."""
    body = re.search(r"#define %s\(X\)(.*?)/\* clang-format on \*/" % macro, read(path), re.S).group(1)
    rows = re.findall(r"\bX\((\w+),\s*([^\n]*?)\)\s*(?:/\*.*?\*/)?\s*\\?\s*$", body, re.M)
    assert rows, "no rows in %s of %s" % (macro, path)
    return [[first] + [arg.strip().strip('"') for arg in rest.split(",")] for first, rest in rows]


def help_of(brig, command):
    run = brig.command(command, "--help")
    assert run.status == 0, run
    return run.out.decode("utf-8")


def help_options(text):
    """Option -> default ("" when the help states none)."""
    found, names = {}, []
    for line in text.splitlines():
        entry = re.match(r" +(?:(-\w), )?(?: {4})?(--[a-z-]+)", line)
        if entry:
            names = [name for name in entry.groups() if name]
            found.update({name: "" for name in names})
        elif not line.startswith(" " * 20):  # else it is the rest of an option's text
            names = []
        default = re.search(r" {2,}\(([^() ]+)\)$", line)
        if default:
            found.update({name: default.group(1) for name in names})
    return found


# The manual page


def test_man_page_has_every_option_of_run(brig_user):
    options = help_options(help_of(brig_user, "run"))
    assert len(options) > 20, options
    entries = option_entries("OPTIONS OF BRIG RUN")
    assert set(entries) == set(options)
    for option, default in options.items():
        if default:
            assert "Default: %s.\n" % default in entries[option], (option, default)


def test_man_page_has_every_option_of_doctor(brig_user):
    options = set(help_options(help_of(brig_user, "doctor"))) | {"-h"}
    assert man_options("OPTIONS OF BRIG DOCTOR") == options


@pytest.mark.parametrize("command", ["batch", "risk", "policy", "approvals", "ledger", "token"])
def test_man_page_has_every_option_of(brig_user, command):
    text = help_of(brig_user, command)
    options = set(OPTION.findall(text.split("\nExample")[0])) - {"-", "--"}
    assert len(options) > 5, options
    assert man_options("OPTIONS OF BRIG %s" % command.upper()) == options


@pytest.mark.parametrize("command", ["serve", "ps", "logs", "wait", "cancel", "top", "completion"])
def test_man_page_has_every_option_of_the_client(brig_user, command):
    options = help_options(help_of(brig_user, command))
    assert "--help" in options, options
    assert man_options("OPTIONS OF BRIG %s" % command.upper()) == set(options)


def test_every_command_has_its_options_in_the_man_page(brig_user):
    """No command is without a section; bench is pool."""
    sections = re.findall(r"^\.SH OPTIONS OF BRIG (\w+)$", man_source(), re.M)
    assert sorted(name.lower() for name in sections) == sorted(commands_of(brig_user) - {"bench"})


def test_man_page_has_the_defaults_of_batch(brig_user):
    entries = option_entries("OPTIONS OF BRIG BATCH")
    defaults = {o: d for o, d in help_options(help_of(brig_user, "batch")).items() if d}
    assert {"--policy", "--confirm"} <= set(defaults), defaults
    for option, default in defaults.items():
        assert "Default: %s.\n" % default in entries[option], (option, default)


@pytest.mark.parametrize("command", ["risk", "policy", "approvals", "ledger", "token"])
def test_synopsis_has_every_verb(brig_user, command):
    """What the usage of a command offers is in the synopsis of the manual page."""
    usage = help_of(brig_user, command).split("\n\n")[0]
    verbs = set(re.findall(r"\bbrig (%s(?: [a-z]+)?)" % command, usage))
    shown = set(re.findall(r"^\.B brig (%s(?: [a-z]+)?)" % command, man_section("SYNOPSIS"), re.M))
    assert verbs and shown == verbs


def commands_of(brig):
    commands = set(re.findall(r"^  ([a-z]+) +\w", brig.command("--help").out.decode("utf-8"), re.M))
    assert {"run", "risk", "ledger", "ps", "token"} <= commands
    return commands


def test_man_page_has_every_command(brig_user):
    commands = commands_of(brig_user)
    text = man_section("SYNOPSIS") + man_section("DESCRIPTION")
    assert commands == set(re.findall(r"^\.B \"?brig ([a-z]+)", text, re.M))


def test_man_page_has_every_state_of_an_approval():
    names = re.search(r"state_names\[APPROVAL_STATE_COUNT\] = \{(.*?)\};", read("src/model/approval.c"), re.S)
    states = [name for name in re.findall(r'"(\w+)"', names.group(1)) if name != "none"]
    assert len(states) == 7, states
    assert [words(tag)[0] for tag in man_entries("STATES OF AN APPROVAL")] == states
    page = read("docs", "internals", "approvals.md")
    assert re.findall(r"^\| `(\w+)` \| ", page.split("## Who")[0], re.M) == states


def test_man_page_has_every_key_of_a_request():
    """What the reader of requests takes from the object itself: o, or the root."""
    source = read("src/model/request.c").replace("\n", " ")
    files = re.search(r"static void read_file\(.*?static void read_files", source).group(0)
    reader = source.replace(files, "")
    keys = set(re.findall(r'(?:json_member|read_choice|read_list)\((?:&rd, )?(?:o|&root), "(\w+)"', reader))
    keys.add("timeout_ms")  # of the limits, the one that is not in "limits"
    assert {"code", "action", "params", "args", "limits"} <= keys
    assert {word for tag in man_entries("JSON REQUEST") for word in words(tag)} == keys


def variables(pattern):
    found = set()
    for path in ROOT.glob(pattern):
        found.update(re.findall(r'\b(?:get|is_|set_)env\w*\("(\w+)"\)', path.read_text(encoding="utf-8")))
    return found


def test_man_page_has_every_variable():
    """Of those that brig reads; what the code gets is another matter."""
    read_by_brig = variables("src/**/*.c") - variables("src/daemon/*.c") | variables("src/cli/*.c")
    assert {"BRIG_POLICY", "BRIG_HOST", "XDG_RUNTIME_DIR"} <= read_by_brig
    assert {word for tag in man_entries("ENVIRONMENT") for word in words(tag)} == read_by_brig


def test_man_page_has_the_ranges_of_the_limits():
    entries = {OPTION.findall(tag)[0]: text for tag, text in man_entries("OPTIONS OF BRIG RUN").items()}
    units = {"MS": [(3600000, "h"), (1000, "s"), (1, "ms")], "COUNT": [(1, "")],
             "BYTES": [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")]}
    factors = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}

    def number(text):
        value = 1
        for part in text.split("*"):
            value *= factors.get(part.strip()) or int(part)
        return value

    def forms(value, kind):
        """Every way of writing the value."""
        if kind == "MILLI":
            return {("%.3f" % (value / 1000)).rstrip("0").rstrip(".")}
        return {"%d%s" % (value // size, name) for size, name in units[kind] if value % size == 0}

    for row in table("src/model/limits.h", "LIMITS_TABLE"):
        _field, _key, option, kind, default, least, most = row[:7]
        text = entries["--" + option]
        stated = re.search(r"^(\S+) to (\S+)\.$", text, re.M)
        assert stated, option
        assert stated.group(1) in forms(number(least), kind), (option, stated.group(0))
        assert stated.group(2) in forms(number(most), kind), (option, stated.group(0))
        assert re.search(r"^Default: (\S+)\.$", text, re.M).group(1) in forms(number(default), kind), option


def test_man_page_has_every_end_state():
    states = [row[1] for row in table("src/model/result.h", "RUN_STATE_TABLE")]
    assert [words(tag)[0] for tag in man_entries("END STATES")] == states


def test_man_page_has_every_error_code_with_its_status():
    codes = [(row[1], row[3]) for row in table("src/base/err.h", "ERR_TABLE")]
    assert [tuple(words(tag)) for tag in man_entries("ERROR CODES")] == codes


def test_man_page_has_every_key_of_the_result(brig_user):
    run = brig_user.command("run", "--json", "--no-such-option")
    result = run.expect("rejected", 2)
    entries = man_entries("JSON RESULT")
    assert [word for tag in entries for word in words(tag)] == list(result)
    for key in ("files", "usage", "receipt", "truncated"):
        for inner in result[key]:
            assert re.search(r"\b%s\b" % inner, entries[".B " + key]), (key, inner)
    for inner in result["error"]:
        assert re.search(r"\b%s\b" % inner, entries[".B error"]), inner
    for inner in result["receipt"]["layers"][0]:
        assert re.search(r"\b%s\b" % inner, entries[".B receipt"]), inner


def test_man_page_has_every_reserved_variable():
    names = re.search(r"reserved_env\[\] = \{(.*?)\n\};", read("src/model/request_check.c"), re.S).group(1)
    entry = man_entries("OPTIONS OF BRIG RUN")['.BI --env " NAME=VALUE"']
    for name in re.findall(r'^\s*\{ ?"(\w+)"', names, re.M):
        assert re.search(r"(?<!\w)\*?%s(?![A-Za-z])" % name, entry), name


def test_man_page_has_the_version(brig_user):
    version = brig_user.command("--version").out.decode().strip()
    assert '"%s"' % version in MAN_PAGE.read_text(encoding="utf-8").split("\n")[1]


@pytest.mark.parametrize("page", MAN_PAGES, ids=lambda page: page.name)
def test_man_page_renders_without_warnings(page):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-ww", "-z", str(page)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout.decode()


def test_man_pages_name_pages_that_exist():
    """Those of brig; others are the system's."""
    ours = {page.name for page in MAN_PAGES}
    assert {"brig.1", "brigd.8", "brigd.yaml.5"} <= ours
    for page in MAN_PAGES:
        for name, number in re.findall(r"\b(brig[\w.]*)\"? \((\d)\)", man_source(page)):
            assert "%s.%s" % (name, number) in ours, (page.name, name, number)


# The daemon


BRIGD_8, BRIGD_YAML_5 = ROOT / "man" / "brigd.8", ROOT / "man" / "brigd.yaml.5"


def brigd(brig, *words_):
    """What brigd, beside brig, prints and ends."""
    program = pathlib.Path(brig.path).with_name("brigd")
    done = subprocess.run([str(program), *words_], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, check=False, timeout=60)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode("utf-8")


def test_brigds_man_page_has_every_option(brig_user):
    options = help_options(brigd(brig_user, "--help"))
    assert len(options) > 10, options
    entries = option_entries("OPTIONS", BRIGD_8)
    assert set(entries) == set(options)
    for option, default in options.items():
        if default and not default.startswith("/"):
            assert "Default: %s.\n" % default in entries[option], (option, default)


def test_brigds_man_page_has_every_variable():
    source = read("src", "daemon", "config_set.c") + read("src", "daemon", "config.c") + \
        read("src", "daemon", "config_flags.c")
    named = set(re.findall(r'"(BRIGD_\w+)"', source))
    assert {"BRIGD_CONFIG", "BRIGD_SOCKET"} <= named
    shown = {word for tag in man_entries("ENVIRONMENT", BRIGD_8) for word in words(tag)}
    assert {name for name in shown if name.startswith("BRIGD_")} == named


SECTIONS = {"listen", "limits", "keep", "quota", "pool", "python", "javascript", "shell", "webhooks", "log"}


def settings_of(text):
    """The names of all settings in a file of them, with those of examples that are commented out (of which
    the # is not followed by one blank, as it is in prose)."""
    names = re.findall(r"^(?:#(?! \w))? *(?:- )?(\w+):", text, re.M)
    inline = " ".join(re.findall(r"\{(.*?)\}", text))
    return set(names) | set(re.findall(r"(\w+):", inline))


def test_example_settings_are_the_defaults(brig_user, tmp_path):
    file = tmp_path / "brigd.yaml"
    file.write_text(read("dist", "brigd.yaml"), encoding="utf-8")
    file.chmod(0o600)
    shown = brigd(brig_user, "--check-config")
    told = brigd(brig_user, "--config", str(file), "--check-config").split("\n", 1)
    assert str(file) in told[0] and told[1] == shown
    example = settings_of(read("dist", "brigd.yaml"))
    assert len(settings_of(shown)) > 40 and settings_of(shown) <= example, settings_of(shown) - example


def test_settings_page_has_every_setting():
    example = settings_of(read("dist", "brigd.yaml"))
    assert SECTIONS | {"socket", "secret_file", "runs_per_second"} <= example, example
    page = man_source(BRIGD_YAML_5)
    assert {words(tag)[0] for tag in re.findall(r"^\.TP\n(.*)$", page, re.M)} == example - SECTIONS
    for section in SECTIONS:
        assert re.search(r"\b%s\b" % section, page), section


def test_units_start_what_is_installed():
    for unit in ROOT.glob("dist/systemd/**/*.service"):
        text = unit.read_text(encoding="utf-8")
        assert re.search(r"^ExecStart=\S*/brigd$", text, re.M), unit
        for name, number in re.findall(r"man:([\w.]+)\((\d)\)", text):
            assert (ROOT / "man" / ("%s.%s" % (name, number))).exists(), (unit, name)


def test_routes_are_those_of_the_page():
    """Also test_openapi.py, by the daemon's own description; here by the table."""
    table_ = re.findall(r'^\t\{ "(GET|POST|DELETE)", "([^"]+)"', read("src/api/routes.c"), re.M)
    page = re.findall(r"^\| `(GET|POST|DELETE) ([^`?]+)", read("docs", "api.md"), re.M)
    assert len(table_) > 20 and sorted(table_) == sorted(page)


def test_net_page_has_the_limits_of_the_settings():
    """Each limit of the wire, by its name in the settings."""
    section = read("dist", "brigd.yaml").split("\nlimits:\n")[1].split("\n\n")[0]
    settings = re.findall(r"^  (\w+):", section, re.M)
    shown = set(re.findall(r"\(`(\w+)`", read("docs", "internals", "net.md")))
    assert set(settings) - {"running", "queue", "acquire"} == shown


# The README


def test_readme_has_every_option_of_run(brig_user):
    options = help_options(help_of(brig_user, "run"))
    rows = re.findall(r"^\| (`-[^|]*)\|[^|]*\|([^|]*)\|$", read("README.md"), re.M)
    shown = {option: row[1].strip() for row in rows for option in OPTION.findall(row[0])}
    assert shown == options


def test_readme_has_every_exit_status(brig_user):
    section = read("README.md").split("## Exit status\n")[1].split("\n## ")[0]
    shown = set(re.findall(r"\b(?:2|12[4-8]|130|137)\b", section))
    assert shown == {"2", "124", "125", "126", "128", "130", "137"}
    stated = help_of(brig_user, "run").split("Exit status:")[1].split("\n\n")[0]
    assert set(re.findall(r"\b\d+\b", stated)) <= shown


# SECURITY.md


def test_security_has_every_layer_with_its_level():
    layers = [(row[1], row[2].lower().replace("_", "-"))
              for row in table("src/model/layer.h", "LAYER_TABLE")]
    assert re.findall(r"^\| `(\w+)` \| (strict|standard|degraded-ok) \| ", read("SECURITY.md"), re.M) == layers


def attack_ids():
    """The ids that a test function carries, or that a list of probes in tests/escape names."""
    ids = {"CF-12"}  # a changed date: a unit test, see test_security_names_unit_tests_that_exist()
    integration = ROOT / "tests" / "integration"
    for path in [*ROOT.glob("tests/escape/test_*.py"), integration / "test_approvals.py",
                 *integration.glob("test_api_*.py"), *integration.glob("test_daemon_*.py")]:
        text = path.read_text(encoding="utf-8")
        for group, number in re.findall(r"^def test_([a-zA-Z]{2})_?(\d\d)_", text, re.M):
            ids.add("%s-%s" % (group.upper(), number))
        for names in re.findall(r"^PROBES = \[(.*?)\]", text, re.M | re.S):
            ids.update(re.findall(r'"([A-Z]{2}-\d\d)"', names))
    return ids


def test_security_names_tests_that_exist():
    text, known = read("SECURITY.md"), attack_ids()
    named = set(re.findall(r"\b([A-Z]{2}-\d\d)\b", text))
    for group, first, last in re.findall(r"\b([A-Z]{2})-(\d\d) to [A-Z]{2}-(\d\d)\b", text):
        named.update("%s-%02d" % (group, n) for n in range(int(first), int(last) + 1))
    assert named and named <= known, sorted(named - known)
    assert known <= named, "the groups' table lacks %s" % sorted(known - named)
    for function, path in re.findall(r"`(test_\w+)` in `(tests/[\w/]+\.py)`", text):
        assert "def %s(" % function in read(path), (function, path)


def test_security_names_unit_tests_that_exist():
    """`tests/unit/test_x.c` (`a`, `b`): a and b are tests of that file."""
    found = re.findall(r"`(tests/unit/\w+\.c)` \(((?:`\w+`(?:, )?)+)\)", read("SECURITY.md"))
    assert len(found) >= 3, found
    for path, names in found:
        for name in re.findall(r"\w+", names):
            assert re.search(r"^Test\(\w+, %s\b" % name, read(path), re.M), (path, name)


def test_security_has_sixteen_guarantees_in_order():
    assert re.findall(r"^\| (G\d+) \| ", read("SECURITY.md"), re.M) == ["G%d" % n for n in range(1, 17)]


# Policies, risk, pipeline


def test_policy_page_has_every_condition():
    keys = [row[1] for row in table("src/policy/policy_impl.h", "COND_TABLE")]
    section = read("docs", "policy.md").split("### Conditions\n")[1].split("\n### ")[0]
    shown = [name for cell in re.findall(r"^\| (`[^|]*)\|", section, re.M) for name in re.findall(r"`(\w+)`", cell)]
    assert set(shown) == set(keys)


def test_pipeline_page_has_every_state():
    states = re.findall(r'^\t\[JOB_\w+\] += \{ "(\w+)"', read("src/pipeline/pipeline.c"), re.M)
    section = read("docs", "internals", "pipeline.md").split("## States\n")[1].split("\n## ")[0]
    shown = [name for cell in re.findall(r"^\| (`[^|]*)\|", section, re.M) for name in re.findall(r"`(\w+)`", cell)]
    assert shown == [state for state in states if state != "none"]


def test_approvals_page_has_every_event():
    events = set()
    for path in ROOT.glob("src/confirm/*.c"):
        events.update(re.findall(r'"(approval\.\w+)"', path.read_text(encoding="utf-8")))
    assert "approval.allowed" in events
    assert set(re.findall(r"`(approval\.[a-z_]+)`", read("docs", "internals", "approvals.md"))) == events


def test_documents_have_the_places_of_the_state_and_of_the_policy(brig_user):
    floor = re.search(r'FLOOR_POLICY\s+"([^"]+)"', read("src/pipeline/open.c")).group(1)
    for document in (read("README.md"), man_source(), read("SECURITY.md")):
        assert floor in document
    for document in (read("README.md"), man_source()):
        assert "/var/lib/brig" in document and "BRIG_STATE_DIR" in document
    assert '"/var/lib/brig"' in read("src/ledger/files.c")


def test_built_in_policies_are_named(brig_user):
    names = brig_user.command("policy", "show").out.decode().split()
    assert names and set(names) == {path.stem for path in ROOT.glob("policies/builtin/*.yaml")}
    for document in (read("README.md"), man_source(), read("docs", "policy.md")):
        for name in names:
            assert re.search(r"\b%s\b" % name, document), name


# All documents


def anchors(path):
    """The anchors that GitHub and others make of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists() and ROOT in file.parents, (path.name, target)
        if anchor:
            assert anchor in anchors(file), (path.name, target)


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_exist(path):
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:src|tests|tools|policies|runtime|docs|demo)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), (path.name, name)


def test_every_page_of_the_internals_is_linked():
    pages = {page.name for page in ROOT.glob("docs/internals/*.md")}
    for index in ("README.md", "ARCHITECTURE.md"):
        assert set(re.findall(r"\(docs/internals/([\w-]+\.md)\)", read(index))) == pages, index


def test_architecture_is_short():
    assert len(read("ARCHITECTURE.md").splitlines()) < 200


def test_result_shown_in_the_readme_has_the_right_keys(brig_user):
    shown = read("README.md").split('    {\n        "execution_id"', 1)[1].split("    ...")[0]
    result = brig_user.command("run", "--json", "--no-such-option").result
    keys = ["execution_id"] + re.findall(r'^ {8}"(\w+)":', shown, re.M)
    assert keys == list(result)[:len(keys)], keys
    usage = json.loads(re.search(r'"usage": (\{.*?\})', shown, re.S).group(1))
    assert list(usage) == list(result["usage"])


# Policies


def yaml_blocks(key):
    """The blocks of docs/policy.md that begin with this key."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", read("docs", "policy.md"), re.M | re.S)
    return [block for block in blocks if block.startswith(key + ":")]


def test_whole_policies_are_policies(brig_user, place):
    whole = yaml_blocks("version")
    assert len(whole) == 2, whole
    for text in whole:
        (place / "team.yaml").write_text(text, encoding="utf-8")
        run = brig_user.command("policy", "check", "--strict", place / "team.yaml")
        assert run.status == 0, run


def test_transcripts_of_policies_are_what_is_printed(brig_user, place):
    page = read("docs", "policy.md")
    (place / "team.yaml").write_text(yaml_blocks("version")[1], encoding="utf-8")
    (place / "team.cases.yaml").write_text(yaml_blocks("policy")[0], encoding="utf-8")
    code = re.search(r"^    \$ cat fetch.py\n(.*?)^    \$", page, re.M | re.S).group(1)
    (place / "fetch.py").write_text(code.replace("    ", ""), encoding="utf-8")
    for words_ in (["explain", "--policy", place / "team.yaml", "--label", "prod", "--caller", "cli:0",
                    place / "fetch.py"], ["test", place / "team.cases.yaml"]):
        lines = brig_user.command("policy", *words_).out.decode("utf-8").splitlines()
        shown = "\n".join("    " + line if line else "" for line in lines)
        assert len(lines) > 4 and shown in page, shown


# Installation


def test_what_is_installed_can_be_found_where_it_is(brig, tmp_path):
    """The staged files are copied: nothing in them may name the place they were staged at."""
    if not shutil.which("make") or not shutil.which("pkg-config"):
        pytest.skip("make or pkg-config is not installed")
    staged = pathlib.Path(brig.path).resolve().parents[1]
    subprocess.run(["make", "-s", "-C", str(ROOT), "install", "OUT=%s" % staged, "DESTDIR=%s" % tmp_path,
                    "PREFIX=/opt/brig"], stdout=subprocess.DEVNULL, check=True, timeout=120)
    there = tmp_path / "opt" / "brig"
    env = {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(there / "lib" / "pkgconfig")}
    for name, place in (("prefix", there), ("includedir", there / "include"), ("libdir", there / "lib")):
        found = subprocess.run(["pkg-config", "--variable=" + name, "brig"], env=env, check=True,
                               stdout=subprocess.PIPE).stdout.decode().strip()
        assert pathlib.Path(found).resolve() == place, found
    assert (there / "bin" / "brig").exists() and (there / "include" / "brig" / "brig.h").exists()


@pytest.mark.parametrize("level", [[], ["--level", "degraded-ok"]], ids=["standard", "degraded"])
def test_demo_recommends_what_works_here(level):
    """Its last words, with the level that it found, for a path that needs quotes."""
    last = read("demo", "run.sh").split('say "demo: all as it should be', 1)[1]
    script = 'say() { printf "%%s\\n" "$*"; }; brig="/a b/brig"; level=(%s); say "%s' % (" ".join(level), last)
    told = subprocess.run(["bash", "-uc", script], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert shlex.split(told.splitlines()[-1]) == ["/a b/brig", "run", *level, "python", "-c", "print(1)"]


def test_clean_keeps_what_was_fetched(place):
    for name in ("build", "build-deps", "build-asan", "out", "out-clang"):
        (place / name).mkdir()
    shutil.copy(ROOT / "Makefile", place / "Makefile")
    for target, left in (("clean", ["Makefile", "build-deps"]), ("distclean", ["Makefile"])):
        subprocess.run(["make", "-s", "-C", str(place), target], check=True, timeout=60)
        assert sorted(path.name for path in place.iterdir()) == left
