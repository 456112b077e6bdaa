import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { BINARY } from "../dist/binary.ts";
import {
  Machine,
  reasonToSkipMachine,
  newDisk,
  until,
  type MachineDisk,
} from "../systemd/machine.ts";
import { CONFIG_FILE, DATA_FOLDER, endsOf, logOf, type Service } from "../systemd/service.ts";

const GUIDES = join(dirname(dirname(import.meta.dirname)), "docs", "guides");
const CONFIG_TEXT = `database = "${DATA_FOLDER}/postbackd.db"
webhooks.allow = ["127.0.0.1"]
`;
/** Nothing listens there: a webhook waits for its retry. */
const NOBODY = "http://127.0.0.1:9100/done";
const ON_ITS_WAY = "/var/on-its-way";

// The operator is root here, and stands in root's home. The network leads to no other machine.
const SHELL = `PATH=/usr/local/sbin:/usr/local/bin:$PATH
cd /root
sudo() { "$@"; }
scp() {
  eval "to=\\\${$#}"
  mkdir -p "${ON_ITS_WAY}\${to#root@new:}"
  while [ $# -gt 1 ]; do cp "$1" "${ON_ITS_WAY}\${to#root@new:}"; shift; done
}
`;

const skip = await reasonToSkipMachine();

/** The blocks of commands in a section of a guide, each as its lines. */
function blocksOf(guide: string, heading: string): readonly (readonly string[])[] {
  const text = readFileSync(join(GUIDES, `${guide}.md`), "utf8");
  const start = text.indexOf(`\n## ${heading}\n`);
  assert.ok(start !== -1, `docs/guides/${guide}.md has no '${heading}'`);
  const [section = ""] = text.slice(start + heading.length + 5).split(/^#{2,} /m);
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) =>
    block.split("\n").filter((line) => line !== ""),
  );
}

/** The only block of a section; a second one would not be walked. */
function blockOf(guide: string, heading: string): readonly string[] {
  const [only, ...more] = blocksOf(guide, heading);
  assert.ok(only !== undefined && more.length === 0, heading);
  return only;
}

/** The two blocks of a section; a third one would not be walked. */
function twoBlocksOf(
  guide: string,
  heading: string,
): readonly [readonly string[], readonly string[]] {
  const [first, second, ...more] = blocksOf(guide, heading);
  assert.ok(first !== undefined && second !== undefined && more.length === 0, heading);
  return [first, second];
}

/** Runs commands that must succeed, and returns the output of each. */
async function walk(machine: Machine, lines: readonly string[]): Promise<readonly string[]> {
  const said: string[] = [];
  for (const line of lines) {
    const { code, stdout, stderr } = await machine.run("sh", "-c", `${SHELL}${line}`);
    assert.equal(code, 0, `${line}: ${stdout}${stderr}\n${await logOf(machine)}`);
    said.push(stdout.trim());
  }
  // A day of an operator is a minute here, and systemd would take so many starts for failures.
  await machine.does("systemctl", "reset-failed");
  return said;
}

/** A machine on which the executable lies where the document has it, and nothing is installed. */
async function boot(t: TestContext): Promise<{ machine: Machine; disk: MachineDisk }> {
  const disk = newDisk(t);
  mkdirSync(join(disk.state, "usr"));
  const machine = await Machine.boot(disk, BINARY);
  await machine.does("mkdir", "-p", "/usr/local/bin", "/root");
  await machine.does("cp", "/opt/postbackd/postbackd", "/usr/local/bin/postbackd");
  await machine.does("ln", "-s", "/opt/postbackd/postbackd", "/root/postbackd");
  return { machine, disk };
}

async function postWithWebhook({ machine, key }: Service): Promise<string> {
  const body = [{ input: 7, postback_url: NOBODY }];
  const [answer] = await machine.call([{ path: "/v1/tasks/task_post", key, body }]);
  return answer?.tasks[0]?.id ?? assert.fail("it was not posted");
}

async function codeOf({ machine, key }: Service, id: string): Promise<number | undefined> {
  const path = `/v1/tasks/task_get/${id}?collect=false`;
  const [answer] = await machine.call([{ path, key }]);
  return answer?.status_code;
}

test("docs/guides: the commands of the service work as they are written", { skip }, async (t) => {
  const { machine, disk } = await boot(t);
  const service = await isInstalled(t, machine, disk);
  const id = await isRestored(t, service);
  await isUpgraded(t, service, id);
  await isBackedUpElsewhere(t, service, disk);
  const moved = await isMoved(t, { service, disk, id });
  await isUninstalled(t, moved);
});

async function isInstalled(t: TestContext, machine: Machine, disk: MachineDisk): Promise<Service> {
  let key = "";
  await t.test("Install the service", async () => {
    const [install] = twoBlocksOf("run-under-systemd", "Install the service");
    const said = await walk(machine, install);
    key = /pbd_live_\w+/.exec(said.join("\n"))?.[0] ?? assert.fail("no key is shown");
    writeFileSync(join(disk.state, CONFIG_FILE), CONFIG_TEXT);
    await machine.does("systemctl", "restart", "postbackd");

    assert.equal(await machine.show("ActiveState"), "active");
    assert.equal(
      await machine.does("stat", "--format=%U", `${DATA_FOLDER}/postbackd.db`),
      "postbackd",
    );
  });
  return { machine, key };
}

async function isRestored(t: TestContext, service: Service): Promise<string> {
  const { machine } = service;
  const id = await postWithWebhook(service);
  await t.test(
    "Make a backup, and Restore: paused, unchanged, and without files of root",
    async () => {
      assert.deepEqual(await endsOf(service, [id]), { completed: 1 });
      await walk(machine, blockOf("backup-and-restore", "Make a backup"));
      const later = await postWithWebhook(service);
      const restore = blockOf("backup-and-restore", "Restore");
      const release = restore.findIndex((line) => line.includes("delivery resume"));
      const said = await walk(machine, restore.slice(0, release));

      assert.match(said.join("\n"), /^0 failed|^Nothing to fix/m);
      assert.match(said.at(-1) ?? "", /restored from a backup/);
      assert.deepEqual([await codeOf(service, id), await codeOf(service, later)], [20000, 40401]);
      assert.match(await deliveryOf(machine, id), /paused/);
      await walk(machine, restore.slice(release));
      assert.doesNotMatch(await deliveryOf(machine, id), /paused/);
      // The addon may be root's: the loader compares it first.
      const owners = await machine.does(
        "find",
        ...[DATA_FOLDER, "!", "-user", "postbackd", "!", "-name", ".postbackd-sqlite-*"],
      );
      assert.equal(owners, "");
    },
  );
  return id;
}

/** The sentence that says where the webhook of a task stands. */
async function deliveryOf(machine: Machine, id: string): Promise<string> {
  const [said = ""] = await walk(machine, [`postbackd admin delivery show ${id}`]);
  return said.split("\n", 1)[0] ?? "";
}

async function isUpgraded(t: TestContext, service: Service, id: string): Promise<void> {
  await t.test("Upgrade, and the way back", async () => {
    const { machine } = service;
    const pid = await machine.show("MainPID");
    await walk(machine, blockOf("upgrade", "Upgrade"));
    assert.notEqual(await machine.show("MainPID"), pid);
    assert.equal(await codeOf(service, id), 20000);

    await walk(machine, blockOf("upgrade", "Go back"));
    assert.equal(await machine.show("ActiveState"), "active");
    assert.equal(await codeOf(service, id), 20000);
  });
}

async function isBackedUpElsewhere(
  t: TestContext,
  { machine }: Service,
  disk: MachineDisk,
): Promise<void> {
  await t.test("Back up to another folder: refused at the start, until it is opened", async () => {
    const backup = '[backup]\nschedule = "0 3 * * *"\nfolder = "/backups"\n';
    writeFileSync(join(disk.state, CONFIG_FILE), CONFIG_TEXT + backup);
    const refused = await logOfStart(machine, () =>
      machine.does("systemctl", "restart", "postbackd"),
    );
    const elsewhere = blockOf("backup-and-restore", "Schedule backups");
    const opened = await logOfStart(machine, () => walk(machine, elsewhere));

    const fault = "/backups cannot be written to: make it, give it to the daemon's user";
    assert.ok(refused.includes(fault), refused);
    assert.ok(!opened.includes("/backups"), opened);
  });
}

/** The log of the daemon until it serves again. */
async function logOfStart(machine: Machine, restart: () => Promise<unknown>): Promise<string> {
  const before = await logOf(machine);
  await restart();
  return until(
    async () => {
      const later = (await logOf(machine)).slice(before.length);
      return /"msg":"ready"/.test(later) ? later : undefined;
    },
    () => "it does not serve again",
  );
}

interface Move {
  readonly service: Service;
  readonly disk: MachineDisk;
  readonly id: string;
}

async function isMoved(t: TestContext, { service, disk, id }: Move): Promise<Machine> {
  const next = await boot(t);
  await t.test("Move to another machine", async () => {
    const [here, there] = twoBlocksOf("move-host", "Move");
    await walk(service.machine, here);
    await service.machine.end();
    await next.machine.does("/usr/local/bin/postbackd", "service", "install");
    for (const folder of [DATA_FOLDER, dirname(CONFIG_FILE)]) {
      const from = join(disk.state, ON_ITS_WAY, folder);
      for (const name of readdirSync(from)) {
        // As scp does: what is there keeps its owner, and what is new is root's alone.
        const to = join(next.disk.state, folder, name);
        writeFileSync(to, readFileSync(join(from, name)), { mode: 0o600 });
      }
    }
    await walk(next.machine, there);

    assert.equal(await codeOf({ ...service, machine: next.machine }, id), 20000);
  });
  return next.machine;
}

async function isUninstalled(t: TestContext, machine: Machine): Promise<void> {
  await t.test("service uninstall takes the service away, and leaves the data", async () => {
    const [, uninstall] = twoBlocksOf("run-under-systemd", "Install the service");
    await walk(machine, uninstall);

    const { stdout } = await machine.run("systemctl", "is-active", "postbackd");
    assert.equal(stdout, "inactive\n");
    assert.match(await machine.does("ls", DATA_FOLDER), /^postbackd\.db$/m);
  });
}
