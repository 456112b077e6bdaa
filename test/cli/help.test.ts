import assert from "node:assert/strict";
import { test } from "node:test";

import { version } from "../../src/assets.ts";
import { allCommands, readCommandTree } from "../../src/cli/command-tree.ts";
import { program } from "../../src/cli/program.ts";
import { runProgram } from "../helpers/program.ts";

test("prints its version", async (t) => {
  for (const flag of ["--version", "-v"]) {
    const { code, stdout, stderr } = await runProgram(t, [flag]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: `${version}\n`, stderr: "" });
  }
});

test("lists its commands", async (t) => {
  const { code, stdout } = await runProgram(t, ["--help"]);

  assert.equal(code, 0);
  assert.equal(
    stdout,
    `\
Runs tasks for accounts and reports finished tasks by signed webhooks (postbackd v${version})

USAGE postbackd start|admin|database|move|worker|config|explain-url|verify|health|completion

COMMANDS

        start    Serve: accept tasks, run them, send their webhooks
        admin    Manage accounts, keys, secrets, access, workers, tasks, deliveries, sign-ins, also while serving
     database    Make and migrate the tables of a database on a server
         move    Move everything from a file to a PostgreSQL server, or back
       worker    Claim tasks from a daemon over HTTP and run a command for each
       config    Check, show and begin a configuration
  explain-url    Tell whether a webhook to a URL would be sent, and why not
       verify    Check the signature of a webhook and say what is wrong with it
       health    Tell whether the daemon accepts tasks
   completion    Print a script that completes commands and flags in a shell

Use postbackd <command> --help for more information about a command.

EXAMPLE

  postbackd start
`,
  );
});

test("explains start with every flag of the settings", async (t) => {
  const { code, stdout } = await runProgram(t, ["start", "--host", "x", "--help"]);

  assert.equal(code, 0);
  assert.equal(
    stdout,
    `\
Serve: accept tasks, run them, send their webhooks (postbackd start)

USAGE postbackd start [OPTIONS]

OPTIONS

         --config=<PATH>    Configuration file; ./postbackd.toml where there is one
             --db=<PATH>    Database file or postgres URL (Default: ./postbackd.db)
           --host=<HOST>    Address or name to listen on (Default: 127.0.0.1)
              --port=<N>    Port to listen on; 0 picks a free one (Default: 8787)
     --ready-file=<PATH>    File that gets the ready line, written whole
         --insecure-http    Serve plain HTTP beyond loopback, keys in the clear
  --trusted-proxy=<CIDR>    Network of a proxy that does HTTPS and may name the client; may be repeated
       --tls-cert=<PATH>    Certificate chain (PEM) to serve HTTPS with; read again on SIGHUP
        --tls-key=<PATH>    Private key (PEM) of the certificate
          --no-dashboard    Serve no dashboard
      --public-url=<URL>    URL of the dashboard, if it is not the address listened on
             --no-notify    Send no notifications through the server, and hear none: for a pooler that passes none on
      --node-name=<NAME>    Name of this daemon among those that share a server; the machine's unless given
        --node-url=<URL>    URL at which this daemon alone is reached; for people
       --run-type=<TYPE>    Type whose tasks this daemon runs itself; all unless given; may be repeated
   --allow-target=<TEXT>    Webhook target that need not be public: CIDR, address or host, [:port]; may be repeated
  --dns-server=<ADDRESS>    Name server for webhook hosts; the system's unless given; may be repeated

When it is ready, stdout gets one line of JSON; logs go to stderr. SIGTERM and SIGINT stop it
after the work under way, within 25 seconds; a second one at once. Every flag is also a variable
(--db is POSTBACKD_DB) and most are keys of postbackd.toml; flags come first, the file last. A URL
with a password is better in a file that POSTBACKD_DB_FILE names: flags are seen by all users.

EXAMPLE

  postbackd start --db /var/lib/postbackd/postbackd.db --port 8787
`,
  );
});

test("explains a command of admin with its whole name", async (t) => {
  const { code, stdout } = await runProgram(t, ["admin", "key", "create", "-h"]);

  assert.equal(code, 0);
  assert.equal(
    stdout,
    `\
Make another API key for an account (postbackd admin key create)

USAGE postbackd admin key create [OPTIONS] <LOGIN>

ARGUMENTS

  LOGIN    Login of the account (Required)

OPTIONS

   --label=<TEXT>    What the key is for; at most 100 characters
  --config=<PATH>    Configuration file; ./postbackd.toml where there is one
      --db=<PATH>    Database file or postgres URL (Default: ./postbackd.db)
           --json    Print one JSON document

An account has at most 20 active keys.

EXAMPLE

  postbackd admin key create alice --label ci
`,
  );
});

test("explains the command that a worker runs", async (t) => {
  const { code, stdout } = await runProgram(t, ["worker", "--help"]);

  assert.equal(code, 0);
  assert.equal(
    stdout,
    `\
Claim tasks from a daemon over HTTP and run a command for each (postbackd worker)

USAGE postbackd worker [OPTIONS] <COMMAND>

ARGUMENTS

  COMMAND=<WORD...>    Program and arguments to run for each task, without a shell (Required)

OPTIONS

           --url=<URL>    Base URL of the daemon
       --token=<TOKEN>    Worker's token; better in POSTBACKD_TOKEN or the file POSTBACKD_TOKEN_FILE names
         --type=<TYPE>    Type whose tasks it claims; at least one, may be repeated
     --concurrency=<N>    Tasks at once, 1 to 100 (Default: 1)
  --timeout=<DURATION>    Longest run; the type's own timeout counts anyway
       --insecure-http    Use plain HTTP beyond loopback, token and tasks in the clear

The command gets the task as one line of JSON on stdin; what it prints is the result. A token on the
command line is seen by every user of the machine: give it in POSTBACKD_TOKEN, or in the file that
POSTBACKD_TOKEN_FILE names. When the daemon has accepted it, stdout gets one line of JSON; logs go to
stderr. SIGTERM and SIGINT stop it: runs have 25 seconds to end, what still runs then is given back.

EXAMPLE

  postbackd worker --url http://127.0.0.1:8787 --type resize -- node resize.js
`,
  );
});

test("explains an argument that may be left out", async (t) => {
  const { code, stdout } = await runProgram(t, ["config", "init", "--help"]);

  assert.equal(code, 0);
  assert.equal(
    stdout,
    `\
Make a configuration file that explains every setting (postbackd config init)

USAGE postbackd config init [OPTIONS] [FILE]

ARGUMENTS

  FILE=<PATH>    File to make; ./postbackd.toml unless given

OPTIONS

  --json    Print one JSON document

Every setting is in it with its default, commented out. An existing file is left as it is.

EXAMPLE

  postbackd config init
`,
  );
});

for (const { words, commands } of allCommands(await readCommandTree(program))) {
  const name = ["postbackd", ...words].join(" ");
  test(`explains ${name} with an example of it`, async (t) => {
    const { code, stdout, stderr } = await runProgram(t, [...words, "--help"]);

    assert.deepEqual([code, stderr], [0, ""]);
    assert.ok(stdout.includes(`(${name}${words.length === 0 ? ` v${version}` : ""})\n`));
    const example = /\nEXAMPLE\n\n {2}(.+)\n$/.exec(stdout)?.[1] ?? "";
    assert.doesNotMatch(stdout, /.{121}/, "no line is wider than 120 columns");
    // A group's example is one of a command in it.
    assert.ok(`${example} `.startsWith(`${name} `), example);
    assert.equal(commands.length > 0, /\nCOMMANDS\n/.test(stdout));
  });
}

const WRONG: readonly [words: readonly string[], stderr: string][] = [
  [
    [],
    "postbackd: no command given; there are start, admin, database, move, worker, config, explain-url, verify, health, completion\nTry 'postbackd --help'.\n",
  ],
  [
    ["strat"],
    "postbackd: unknown command \"strat\"; the nearest known one is start\nTry 'postbackd --help'.\n",
  ],
  [
    ["admin", "account", "constructor"],
    'postbackd: unknown command "constructor"; the nearest known one is create\n' +
      "Try 'postbackd admin account --help'.\n",
  ],
  [
    ["admin"],
    "postbackd: no command given; there are account, key, secret, access, worker, task, delivery, node, link\nTry 'postbackd admin --help'.\n",
  ],
  [
    ["--db", "x", "start"],
    'postbackd: unexpected flag "--db" before the command; flags stand behind the command, as in ' +
      "'postbackd start --db FILE'\nTry 'postbackd --help'.\n",
  ],
  [
    ["start", "--prot", "1"],
    'postbackd: unknown flag "--prot"; the nearest known one is --port\n' +
      "Try 'postbackd start --help'.\n",
  ],
  [
    ["config", "init", "a", "b"],
    "postbackd: unexpected argument \"b\"\nTry 'postbackd config init --help'.\n",
  ],
  [["explain-url"], "postbackd: URL is missing\nTry 'postbackd explain-url --help'.\n"],
  [
    ["admin", "account", "list", "alice"],
    "postbackd: unexpected argument \"alice\"\nTry 'postbackd admin account list --help'.\n",
  ],
];

for (const [words, stderr] of WRONG) {
  test(`exits with 2 and says what would be right: postbackd ${words.join(" ")}`, async (t) => {
    const finished = await runProgram(t, words);

    assert.deepEqual(finished, { code: 2, signal: null, stdout: "", stderr });
  });
}
