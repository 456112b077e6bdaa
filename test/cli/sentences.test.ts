import assert from "node:assert/strict";
import { test } from "node:test";

import { newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { assertSentences } from "../helpers/sentences.ts";
import { runHere } from "./in-process.ts";

const UNKNOWN = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
const SECRET = "hunter2-hunter2";
const SERVER = `postgres://app:${SECRET}@127.0.0.1:1/jobs`;
// Nothing listens on port 1: these commands are refused before they connect.
const URL = "--url http://127.0.0.1:1";
const FORWARD = "--forward-to http://127.0.0.1:1/hook";
const WORK = `worker ${URL} --type x`;

/** A command line, or its words if one has a space; variables stand in front. */
type Line = string | readonly string[];

/** Command lines in a folder with the account alice, by their exit code. */
const REFUSED: Readonly<Record<number, readonly Line[]>> = {
  1: [
    ["admin", "access", "deny", ""],
    `admin access approve ${UNKNOWN} --login a`,
    `admin access deny ${UNKNOWN}`,
    "admin access deny \u001b[2J",
    "admin account create alice",
    "admin account disable bob",
    "admin account enable bob",
    "admin account export bob",
    "admin account limit bob --bytes 1",
    "admin account list --db .",
    "admin account list --db no-such-folder/x.db",
    "admin account list --db postbackd.db/x.db",
    "admin delivery cancel x",
    `admin delivery cancel ${UNKNOWN}`,
    "admin delivery list --account bob",
    "admin delivery pause --account bob",
    "admin delivery redeliver --account bob",
    `admin delivery redeliver ${UNKNOWN}`,
    "admin delivery resume",
    "admin delivery resume --host a.example",
    `admin delivery show ${SECRET}`,
    `admin delivery show ${UNKNOWN}`,
    `admin delivery show ${UNKNOWN} --message`,
    "admin key create bob",
    "admin key list bob",
    "admin key revoke key_0",
    `admin key revoke pbd_live_${"a".repeat(40)}`,
    "POSTBACKD_DASHBOARD=false admin link",
    "POSTBACKD_PORT=0 admin link",
    "admin node list",
    "admin secret finish alice",
    "admin secret finish bob",
    "admin secret rotate bob",
    "admin secret show bob",
    "admin task list --account bob",
    `admin task cancel ${UNKNOWN}`,
    `admin task show ${UNKNOWN}`,
    "admin worker revoke w",
    "config init postbackd.toml",
    "config init no-such-folder/x.toml",
    "database migrate",
    "service install",
    "verify --signature x --secret-file none --url https://example.com/",
    `verify --signature x --secret ${SECRET} --body-file none`,
    `${WORK} -- ./no-such-program`,
  ],
  2: [
    [],
    ["admin", "account", "create", "a b"],
    ["admin", "key", "list", ""],
    ["admin", "key", "create", "alice", "--label", "line\nbreak"],
    "--db x start",
    "admin",
    "admin access approve --login a",
    `admin access approve ${UNKNOWN}`,
    `admin access approve ${UNKNOWN} --login=`,
    "admin access deny",
    "admin access deny --all --older-than 1",
    `admin access deny ${UNKNOWN} --all`,
    `admin access deny ${UNKNOWN} --older-than 1h`,
    "admin access list pending",
    "admin account constructor",
    "admin account create é",
    "admin account delete alice",
    "admin account limit alice --bytes 2GB",
    "admin account limit alice --bytes 1 --tasks-per-minute x",
    "admin account limit alice --open-tasks -1",
    "admin account limit alice --open-tasks 1.5",
    "admin account list alice",
    "admin delivery hold",
    "admin delivery holds",
    "admin delivery list --account a/b",
    "admin delivery list --before x",
    "admin delivery list --host http://h.example/",
    "admin delivery list --host h.example:80",
    "admin delivery list --host [::1]x",
    "admin delivery list --kind both",
    "admin delivery list --limit 0",
    "admin delivery list --limit 1e3",
    "admin delivery list --limit 99999999999999999999",
    "admin delivery list --outcome lost",
    "admin delivery list --since -1h",
    "admin delivery list --since 2026-02-30T00:00:00Z",
    "admin delivery list --since yesterday",
    "admin delivery list --since 2026-02-02T00:00:00Z --until 2026-02-01T00:00:00Z",
    "admin delivery list --state given-up",
    "admin delivery list --task '",
    "admin delivery redeliver",
    "admin delivery redeliver --dry-run",
    "admin delivery redeliver --host h.example --rate 0",
    "admin delivery redeliver --host h.example --rate 1001",
    "admin delivery redeliver --state scheduled",
    "admin delivery release",
    "admin delivery show",
    `admin delivery show ${UNKNOWN} --message --json`,
    "admin key delete k1",
    "admin link --public-url=pb.example.com",
    "admin link --public-url=https://pb.example.com/x",
    "admin link --public-url=ftp://x",
    "admin link --public-url=https://",
    "admin secret rotate",
    "admin secret finish alice now",
    "admin secret show é",
    "admin task cancel",
    "admin task cancel --account -a",
    "admin task cancel --type print",
    `admin task cancel ${UNKNOWN} --running`,
    "admin task erase",
    "admin worker create --type ocr",
    "admin worker create w",
    "admin worker create w --type a/b",
    "admin worker create w@1 --type ocr",
    `admin worker create ${"w".repeat(65)} --type ocr`,
    "backup restore copy.db --db restored.db",
    "backup restore copy.db --deliveries hold",
    "completion tcsh",
    "config init a b",
    ["explain-url", "http://127.0.0.1/$tag", "--tag", "a\nb"],
    "explain-url",
    "health --timeout 30",
    "health --url 127.0.0.1:8787",
    "health --url http://127.0.0.1/?x=1",
    `listen ${FORWARD}`,
    `listen ${URL}`,
    `listen ${URL} --forward-to ftp://a`,
    `listen ${URL} --forward-to http://a:b@127.0.0.1`,
    `POSTBACKD_KEY=${SECRET} listen ${URL} ${FORWARD}`,
    "serve",
    "start --db postgres://app@127.0.0.1/jobs?sslmod=require",
    "start --hold-deliveries",
    "start --limits-requests-per-minute 5",
    "start --webhooks-timeout 3s",
    "start --no-dashboard=maybe",
    "start --port x",
    "start --prot 1",
    "start --trusted-proxy 10.0.0.0/8 --trusted-proxy x",
    "strat",
    "verify",
    "verify --signature x",
    `verify --signature x --secret ${SECRET}`,
    `verify --signature x --secret ${SECRET} --url u --body-file -`,
    "worker --type x -- true",
    "worker --url ftp://a --type x -- true",
    "worker --url http://a:b@127.0.0.1 --type x -- true",
    "worker --url http://127.0.0.1/?x=1 --type x -- true",
    `worker ${URL} -- true`,
    `worker ${URL} --type a/b -- true`,
    `${WORK}`,
    `${WORK} --`,
    `${WORK} node -e 1`,
    `${WORK} --concurrency 0 -- true`,
    `${WORK} --concurrency 101 -- true`,
    `${WORK} --concurrency 1e1 -- true`,
    `${WORK} --timeout 5 -- true`,
    `${WORK} --token ${SECRET} -- true`,
    `POSTBACKD_TOKEN= ${WORK} -- true`,
    `POSTBACKD_TOKEN= POSTBACKD_TOKEN_FILE=/no/file ${WORK} -- true`,
  ],
  78: [
    "admin account list --config missing.toml",
    `config check --db ${SERVER}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem`,
    "config check --host 0.0.0.0",
    "POSTBACKD_PORT=x config print",
    `listen ${URL} ${FORWARD} --ca /nowhere/ca.pem`,
    `listen --url http://192.0.2.1 ${FORWARD}`,
    `POSTBACKD_DB=${SERVER}?sslmod=require start`,
    "POSTBACKD_DBB=x.db admin account list",
    "POSTBACKD_HOTS=::1 POSTBACKD_PORT=99999 start",
    "start --host 0.0.0.0",
    "start --tls-cert cert.pem --tls-key key.pem",
    "worker --url http://192.0.2.1 --type x -- true",
    "worker --url http://[2001:db8::1]:80 --type x -- true",
  ],
};

/** Command lines that succeed one after another, in a folder without a database. */
const DONE: readonly Line[] = [
  "admin account create alice",
  "admin account list",
  "admin key create alice --label ci",
  "admin key list alice",
  "admin account limit alice --bytes=2GiB --open-tasks=0",
  "admin account disable alice",
  "admin account enable alice",
  "admin secret show alice",
  "admin secret rotate alice",
  "admin secret finish alice",
  "admin access list",
  "admin access list --all",
  "admin access deny --all",
  "POSTBACKD_TOKEN=x POSTBACKD_TOKEN_FILE=x POSTBACKD_TASK_ID=y admin worker list",
  "admin worker create w.1 --type ocr --type echo",
  "admin worker list",
  "admin worker revoke w.1",
  "admin task list",
  "admin delivery list",
  "admin delivery orders",
  "admin delivery paused",
  "admin delivery pause --account alice --reason maintenance",
  "admin delivery pause --account alice",
  "admin delivery resume --account alice",
  "admin delivery redeliver --host a.example",
  "admin link",
  "config check",
  "config init",
];

test("every message of the commands is one of sentences.txt", async (t) => {
  const cwd = temporaryFolder(t);
  const [key, token] = [newKey().key, newWorkerToken().key];
  const credentials = { POSTBACKD_KEY: key, POSTBACKD_TOKEN: token };
  const run = async (line: Line, code: number): Promise<readonly [string, string]> => {
    const words = typeof line === "string" ? line.split(" ") : line;
    const given = words.filter((word) => /^POSTBACKD_\w+=/.test(word));
    const set = Object.fromEntries(given.map((word) => word.split(/=(.*)/s, 2)));
    const command = words.slice(given.length);
    const own = ["listen", "worker"].includes(command[0] ?? "") ? credentials : {};
    const ended = await runHere(t, command, { cwd, env: { ...own, ...set } });
    const shown = code === 0 ? ended.stdout : ended.stderr;
    assert.equal(ended.code, code, `${words.join(" ")}: ${ended.stdout}${ended.stderr}`);
    assert.doesNotMatch(shown, /\n {4}at |(?!\n)\p{Cc}/u);
    for (const secret of [key, token, SECRET, "a".repeat(40)]) assert.ok(!shown.includes(secret));
    if (code > 0 && !words.includes("--json")) assert.equal(ended.stdout, "");
    const cause = words.map((word) => (/^[!#-&(-~]+$/.test(word) ? word : JSON.stringify(word)));
    const help = /\nTry 'postbackd( [a-z-]+)* --help'\.\n$/;
    assert.equal(help.test(shown), code === 2);
    return [[...cause, `→ ${code}`].join(" "), withoutVariables(shown.replace(help, ""), cwd)];
  };
  // Many commands share a sentence: the file has its first cause.
  const causes = new Map<string, string>();
  for (const [code, lines] of Object.entries({ 0: DONE, ...REFUSED })) {
    for (const line of lines) {
      const [cause, sentence] = await run(line, Number(code));
      if (!causes.has(sentence)) causes.set(sentence, cause);
    }
  }
  const sentences = Array.from(causes, ([sentence, cause]) => [cause, sentence] as const);
  assertSentences(t, import.meta.dirname, sentences);
});

const VARIABLES: readonly (readonly [RegExp, string])[] = [
  [/pbd_(?:live|work|link)_[\w-]{40,43}/g, "TOKEN"],
  [/key_[0-9a-f]{32}/g, "KEY_ID"],
  [/whsec_\S{44}/g, "SECRET"],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "TIME"],
  [/(pbd_live_ {2}|ocr,echo {2})\w{4} /g, "$1LAST "],
];

/** The text with names in place of what differs from run to run, indented as one cause of the file. */
function withoutVariables(text: string, cwd: string): string {
  const named = VARIABLES.reduce(
    (rest, [pattern, name]) => rest.replaceAll(pattern, name),
    text.replaceAll(cwd, "FOLDER"),
  );
  return named.trimEnd().replaceAll("\n", "\n    ");
}
