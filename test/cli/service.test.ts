import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { SERVICE_CONFIG_FILE } from "../../src/config/setting.ts";
import { ServiceError, installSteps, unitText } from "../../src/ops/service.ts";
import {
  SOURCES,
  runProgram,
  startProgram,
  temporaryFolder,
  type Finished,
} from "../helpers/program.ts";
import { reasonToSkipMachine } from "../systemd/machine.ts";
import { runHere } from "./in-process.ts";

const TEMPLATE = readFileSync(new URL("../../deploy/postbackd.service", import.meta.url), "utf8");

test("service install --dry-run prints every step and the unit", async (t) => {
  const { code, stdout, stderr } = await runHere(t, ["service", "install", "--dry-run"]);

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.ok(stdout.includes(TEMPLATE));
  assert.match(stdout, /^useradd --system .+ postbackd$/m);
  assert.match(stdout, /^systemctl enable postbackd$/m);
});

test("service uninstall --dry-run prints its steps", async (t) => {
  const { code, stdout } = await runHere(t, ["service", "uninstall", "--dry-run"]);

  assert.equal(code, 0);
  assert.match(stdout, /^systemctl disable --now postbackd$/m);
  assert.match(stdout, /^rm \/etc\/systemd\/system\/postbackd\.service$/m);
});

for (const [place, line] of [
  ["/usr/bin/postbackd", "ExecStart=/usr/bin/postbackd start"],
  ["/opt/a b/100%/$x/postbackd", 'ExecStart="/opt/a b/100%%/$$x/postbackd" start'],
] as const) {
  test(`the unit starts the executable at ${place}`, () => {
    assert.ok(unitText(place).includes(`\n${line} --config /etc/postbackd/postbackd.toml\n`));
  });
}

test("an executable in a folder that the unit hides is copied", () => {
  const [first, ...rest] = installSteps("/home/alice/postbackd");

  assert.ok(first?.kind === "run");
  assert.deepEqual(first.command.slice(-2), ["/home/alice/postbackd", "/usr/local/bin/postbackd"]);
  assert.ok(rest.every((step) => !JSON.stringify(step).includes("/home/alice")));
});

test("an executable whose path would break the unit is refused", () => {
  for (const place of ["/opt/a\nUser=root\n/x", '/opt/a" "b/x', "/opt/a'b/x", "/opt/a\\nb/x"]) {
    assert.throws(() => installSteps(place), ServiceError);
  }
  // The unit names the copy.
  assert.equal(installSteps('/home/a "b"/x')[0]?.kind, "run");
});

const skip = await reasonToSkipMachine();

// An /etc of its own, with the file for root alone, as the packages install it.
const ENTER = `mount --make-rprivate /
mount -t tmpfs service-config "$0/etc"
mkdir "$0/etc/over" "$0/etc/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc/over,workdir=$0/etc/work" service-config /etc
install -D -m 0640 "$0/service.toml" ${SERVICE_CONFIG_FILE}
exec "$@"`;
const STRANGER = ["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups"];
const CREATE = ["admin", "account", "create", "acme"];

/** A machine that has a service, and an empty folder on it. */
function setUp(t: TestContext) {
  const place = temporaryFolder(t);
  const cwd = temporaryFolder(t);
  chmodSync(cwd, 0o777);
  mkdirSync(join(place, "etc"));
  mkdirSync(join(place, "data"));
  const database = join(place, "data", "service.db");
  writeFileSync(join(place, "service.toml"), `database = "${database}"\n`);
  const enter = ["unshare", "--mount", "sh", "-euc", ENTER, place] as const;
  const command = [...enter, ...SOURCES] as const;
  return {
    cwd,
    database,
    run: (...args: string[]) => runProgram(t, args, { command, cwd }),
    start: (...args: string[]) => startProgram(t, args, { command, cwd }),
    asStranger: (...args: string[]) =>
      runProgram(t, args, { command: [...enter, ...STRANGER, ...SOURCES], cwd }),
  };
}

function documentIn({ code, stdout, stderr }: Finished): object {
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

test("a command in an empty folder uses the configuration of the service", { skip }, async (t) => {
  const { cwd, database, run } = setUp(t);

  const made = documentIn(await run(...CREATE, "--json"));
  const checked = await run("config", "check");
  const print = await run("config", "print");
  const examined = await run("doctor");

  assert.equal(Reflect.get(made, "database_created"), database);
  assert.match(checked.stdout, /^Read \/etc\/postbackd\/postbackd\.toml\.$/m);
  assert.match(
    print.stdout,
    /^config +"\/etc\/postbackd\/postbackd\.toml" +this machine's service$/m,
  );
  assert.match(examined.stdout, /^ok +configuration +\/etc\/postbackd\/postbackd\.toml$/m);
  assert.match(examined.stdout, /^ok +owner +\S+service\.db/m);
  assert.deepEqual(readdirSync(cwd), []);
});

test("--db and --config take precedence over the service", { skip }, async (t) => {
  const { cwd, database, run } = setUp(t);
  const config = join(cwd, "other.toml");
  writeFileSync(config, `database = "${join(cwd, "other.db")}"\n`);

  const byFlag = await run(...CREATE, "--db", "own.db");
  const byFile = await run(...CREATE, "--config", config);

  for (const { code, stderr } of [byFlag, byFile]) assert.deepEqual([code, stderr], [0, ""]);
  assert.ok(existsSync(join(cwd, "own.db")) && existsSync(join(cwd, "other.db")));
  assert.ok(!existsSync(database));
});

for (const { name, text } of [
  { name: "postbackd.toml", text: 'database = "./postbackd.db"\n' },
  { name: "postbackd.db", text: "" },
]) {
  test(
    `a ${name} in the folder takes precedence over the service, with a message`,
    { skip },
    async (t) => {
      const { cwd, database, run } = setUp(t);
      writeFileSync(join(cwd, name), text);

      const { code, stdout, stderr } = await run(...CREATE);

      assert.equal(code, 0, stderr);
      assert.ok(stdout.includes(join(cwd, "postbackd.db")), stdout);
      assert.match(stderr, new RegExp(`\\./${name}.*--config ${SERVICE_CONFIG_FILE}\\n$`));
      assert.ok(!existsSync(database));
    },
  );
}

test(
  "a daemon that is started by hand serves its folder, and not the service's database",
  { skip },
  async (t) => {
    const { cwd, database, start, run } = setUp(t);

    const dev = start("dev", "--port", "0");
    await dev.ready;
    const program = start("start", "--port", "0");
    const { db } = await program.ready;
    const created = await run(...CREATE);

    assert.equal(db, join(cwd, "postbackd.db"));
    assert.equal(created.code, 0, created.stderr);
    assert.doesNotMatch(created.stdout, /Created the database/);
    assert.ok(!existsSync(database));
    assert.doesNotMatch(dev.stderr + program.stderr, /service/);
  },
);

test(
  "a user who may not read the service's configuration makes no database",
  { skip },
  async (t) => {
    const { cwd, asStranger } = setUp(t);

    for (const args of [CREATE, ["config", "check"], ["backup", "create", "copy.db"]]) {
      const { code, stderr } = await asStranger(...args);
      assert.equal(code, 78, stderr);
      assert.match(stderr, new RegExp(`${SERVICE_CONFIG_FILE}.*EACCES.*--db\\n$`));
    }
    const health = await asStranger("health", "--url", "http://127.0.0.1:1");
    const own = await asStranger(...CREATE, "--db", "own.db");

    assert.deepEqual([health.code, health.stderr], [1, ""]);
    assert.deepEqual([own.code, own.stderr], [0, ""]);
    assert.ok(!existsSync(join(cwd, "postbackd.db")));
  },
);
